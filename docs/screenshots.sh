#!/usr/bin/env bash
# Makes docs/images/*.png anew: Wireshark's window with the plugin and its profile, on captures of this repository.
#
#     sudo docs/screenshots.sh
#
# Wireshark runs as an ordinary user with an empty home, on an X server without a screen, all of it in a Debian tree
# of its own (ikeanalyze/lab/debian_tree.sh; a gigabyte, made once). Look at the pictures before they are committed.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "screenshots: needs root, for the Debian tree" >&2; exit 1; }
export PATH=$PWD/.venv/bin:$PATH
trees=${IKEANALYZE_TREES:-${XDG_CACHE_HOME:-$HOME/.cache}/ikeanalyze}/screenshots
tree=$(IKEANALYZE_TREES=$trees ikeanalyze/lab/debian_tree.sh forky wireshark tshark xvfb xdotool imagemagick fonts-dejavu-core)
width=1400 height=860

room=$(mktemp -d "$tree/tmp/screenshots-XXXXXX")
trap 'rm -rf --one-file-system "$room"' EXIT
inside=${room#"$tree"}
mkdir -p "$room/home" "$room/run"
cp captures/pq-mlkem768-psk.pcap captures/loss20-classic.pcap "$room/"
ikeanalyze keys captures/pq-mlkem768-psk.charon.log.gz --to json -o "$room/keys.json" # the keys of both epochs
# tshark is not used: the host's version may differ, and the usual folders are correct in an empty home.
env -u XDG_CONFIG_HOME -u WIRESHARK_CONFIG_DIR HOME="$room/home" PATH="$(dirname "$(command -v ikeanalyze)")" ikeanalyze wireshark install
settings=$room/home/.config/wireshark

# What a user drags with the mouse: the window, its panes, the widths of the columns.
cat >"$settings/recent_common" <<END
gui.geometry_main_x: 0
gui.geometry_main_y: 0
gui.geometry_main_width: $width
gui.geometry_main_height: $height
END
recent() { # HEIGHT of the list of packets
    cat >"$settings/profiles/IKE/recent" <<END
gui.geometry_main_upper_pane: $1
gui.geometry_main_lower_pane: 900
column.width: %m, 50, %t, 75, %s, 90, %d, 90, %Cus:ikex.handshake:1:R, 75, %Cus:ikex.exchange:1:R, 135, %Cus:ikex.kind:1:R, 70, %Cus:ikex.retransmission:1:R, 105, %Cus:ikex.fragment:1:R, 70, %Cus:ikex.epoch:1:R, 50, %Cus:ikex.response_time:1:R, 130, %L, 55, %i, 400
END
}

cat >"$room/shoot" <<END
#!/bin/sh
# NAME LINE ARGUMENT...: start Wireshark, open the tree of details at this line (0: not), take the picture.
name=\$1 line=\$2
shift 2
cd $inside
Xvfb :77 -screen 0 ${width}x$height""x24 -nolisten tcp >/dev/null 2>&1 &
server=\$!
export DISPLAY=:77
sleep 2
wireshark -C IKE "\$@" >wireshark.log 2>&1 &
window=\$!
sleep 12
if [ "\$line" != 0 ]; then
    xdotool mousemove 300 "\$line" click 1 key shift+Right
    sleep 2
fi
xdotool mousemove $width $height
sleep 1
import -window root window.png
convert window.png +dither -colors 128 -strip -define png:compression-level=9 "png8:\$name.png"
kill \$window
sleep 1
kill \$server
END
chmod 755 "$room/shoot"

shoot() { # NAME LINE ARGUMENT...
    chown -R 65534:65534 "$room"
    unshare --mount sh -c '
        tree=$1 inside=$2; shift 2
        mount -t proc proc "$tree/proc"
        mount -t tmpfs tmpfs "$tree/dev/shm"
        exec chroot --userspec=65534:65534 --groups= "$tree" env -i PATH=/usr/bin:/bin HOME="$inside/home" \
            XDG_RUNTIME_DIR="$inside/run" LC_ALL=C.UTF-8 TZ=UTC "$inside/shoot" "$@"
    ' sh "$tree" "$inside" "$@"
    mkdir -p docs/images
    cp "$room/$1.png" docs/images/
}

recent 175
shoot wireshark-pq-mlkem768-psk 358 -r pq-mlkem768-psk.pcap -o "ikex.keys:$inside/keys.json" -g 5
recent 340
shoot wireshark-retransmissions 523 -r loss20-classic.pcap -g 8
ls -l docs/images
