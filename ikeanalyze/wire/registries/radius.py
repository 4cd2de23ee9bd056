"""RADIUS registries: packet codes, and the attribute types that the analysis uses."""

from typing import Final

from ikeanalyze.wire.registries import Registry


class RadiusCode(Registry):
    """Packet codes (RFC 2865, section 4; RFC 3575; RFC 5176; RFC 7930)."""

    ACCESS_REQUEST = 1, "Access-Request"
    ACCESS_ACCEPT = 2, "Access-Accept"
    ACCESS_REJECT = 3, "Access-Reject"
    ACCOUNTING_REQUEST = 4, "Accounting-Request"
    ACCOUNTING_RESPONSE = 5, "Accounting-Response"
    ACCOUNTING_STATUS = 6, "Accounting-Status"
    PASSWORD_REQUEST = 7, "Password-Request"
    PASSWORD_ACK = 8, "Password-Ack"
    PASSWORD_REJECT = 9, "Password-Reject"
    ACCOUNTING_MESSAGE = 10, "Accounting-Message"
    ACCESS_CHALLENGE = 11, "Access-Challenge"
    STATUS_SERVER = 12, "Status-Server"
    STATUS_CLIENT = 13, "Status-Client"
    RESOURCE_FREE_REQUEST = 21, "Resource-Free-Request"
    RESOURCE_FREE_RESPONSE = 22, "Resource-Free-Response"
    RESOURCE_QUERY_REQUEST = 23, "Resource-Query-Request"
    RESOURCE_QUERY_RESPONSE = 24, "Resource-Query-Response"
    ALTERNATE_RESOURCE_RECLAIM_REQUEST = 25, "Alternate-Resource-Reclaim-Request"
    NAS_REBOOT_REQUEST = 26, "NAS-Reboot-Request"
    NAS_REBOOT_RESPONSE = 27, "NAS-Reboot-Response"
    NEXT_PASSCODE = 29, "Next-Passcode"
    NEW_PIN = 30, "New-Pin"
    TERMINATE_SESSION = 31, "Terminate-Session"
    PASSWORD_EXPIRED = 32, "Password-Expired"
    EVENT_REQUEST = 33, "Event-Request"
    EVENT_RESPONSE = 34, "Event-Response"
    DISCONNECT_REQUEST = 40, "Disconnect-Request"
    DISCONNECT_ACK = 41, "Disconnect-ACK"
    DISCONNECT_NAK = 42, "Disconnect-NAK"
    COA_REQUEST = 43, "CoA-Request"
    COA_ACK = 44, "CoA-ACK"
    COA_NAK = 45, "CoA-NAK"
    IP_ADDRESS_ALLOCATE = 50, "IP-Address-Allocate"
    IP_ADDRESS_RELEASE = 51, "IP-Address-Release"
    PROTOCOL_ERROR = 52, "Protocol-Error"


#: Requests that a client sends to its server.
CLIENT_REQUESTS: Final = (RadiusCode.ACCESS_REQUEST, RadiusCode.ACCOUNTING_REQUEST, RadiusCode.STATUS_SERVER)


class RadiusAttribute(Registry):
    """Attribute types (RFC 2865, section 5; RFC 2869; RFC 3162)."""

    NAS_IP_ADDRESS = 4, "NAS-IP-Address"
    STATE = 24, "State"
    CALLED_STATION_ID = 30, "Called-Station-Id"
    CALLING_STATION_ID = 31, "Calling-Station-Id"
    PROXY_STATE = 33, "Proxy-State"
    EAP_MESSAGE = 79, "EAP-Message"
    NAS_IPV6_ADDRESS = 95, "NAS-IPv6-Address"
