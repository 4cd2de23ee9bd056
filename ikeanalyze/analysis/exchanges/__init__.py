"""Messages to exchanges: requests and responses, IKE_SA_INIT facts, NAT, RADIUS and timing."""
