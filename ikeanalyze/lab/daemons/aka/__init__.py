"""EAP-AKA in the lab: hostapd as AAA server, an authentication centre, and ikeanalyze itself as initiator."""
