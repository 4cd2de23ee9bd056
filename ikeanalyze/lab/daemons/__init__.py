"""Daemons of the lab: configuration and control of strongSwan, libreswan and FreeRADIUS."""
