"""Key material in logs of strongSwan's charon: reads the log lines and assigns secrets to IKE SAs."""
