"""The daemons of the lab: strongSwan, libreswan and FreeRADIUS, configured and controlled."""
