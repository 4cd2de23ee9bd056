"""Read the key material in logs of strongSwan's charon and assign it to IKE SAs."""
