#!/bin/sh
# A side of a lab's case (stack = "command"): strongSwan of the Debian tree $1 with a PSK, controlled with swanctl.
set -eu
tree=$1
mount --bind /run "$tree/run"
mount --bind /dev "$tree/dev"
inside() { chroot "$tree" env STRONGSWAN_CONF=/run/strongswan.conf SWANCTL_DIR=/run "$@"; }

kernel="kernel-libipsec kernel-netlink"
[ "$IKE_KERNEL_ESP" = no ] || kernel=kernel-netlink
cat >/run/strongswan.conf <<END
charon {
  load = random nonce aes sha1 sha2 hmac gcm curve25519 openssl kdf $kernel socket-default vici
  plugins { vici { socket = unix:///run/vici } }
}
END
(umask 077 && cat >/run/swanctl.conf <<END)
connections { lab {
  version = 2
  local_addrs = $IKE_LOCAL_ADDRESS
  remote_addrs = $IKE_REMOTE_ADDRESS
  proposals = $IKE_PROPOSALS
  local { auth = $IKE_LOCAL_AUTH
    id = $IKE_LOCAL_ID }
  remote { auth = $IKE_REMOTE_AUTH
    id = $IKE_REMOTE_ID }
  children { lab {
    local_ts = $IKE_LOCAL_TS
    remote_ts = $IKE_REMOTE_TS
    esp_proposals = $IKE_ESP_PROPOSALS
  } }
} }
secrets { ike { secret = "$(cat "$IKE_PSK_FILE")" } }
END

inside /usr/lib/ipsec/charon &
tries=0
until inside swanctl --uri unix:///run/vici --load-all --noprompt --file /run/swanctl.conf; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || exit 1
    sleep 0.1
done
echo "lab: ready"

while read -r request; do
    case $request in
    initiate)
        if inside swanctl --uri unix:///run/vici --initiate --child lab --timeout "${IKE_TIMEOUT_S%.*}" >/run/initiated 2>&1; then
            spis=$(inside swanctl --uri unix:///run/vici --list-sas --ike lab |
                sed -n 's/.* \([0-9a-f]\{16\}\)_i\** \([0-9a-f]\{16\}\)_r\**.*/\1 \2/p' | head -n 1)
            echo "lab: established $spis"
        else
            echo "lab: failed $(sed -n 's/.*received \([A-Z_]*\) .*error.*/\1/p' /run/initiated | head -n 1)"
        fi
        ;;
    terminate)
        inside swanctl --uri unix:///run/vici --terminate --ike lab >/dev/null 2>&1 || true
        echo "lab: terminated"
        ;;
    esac
done
