"""EAP registries: codes, types, and the numbers in EAP-SIM, EAP-AKA, EAP-AKA' and EAP-MSCHAPv2."""

from typing import Final

from ikeanalyze.wire.registries import DashedRegistry, Registry


class EapCode(Registry):
    """Packet codes (RFC 3748, section 4; RFC 6696)."""

    REQUEST = 1, "Request"
    RESPONSE = 2, "Response"
    SUCCESS = 3, "Success"
    FAILURE = 4, "Failure"
    INITIATE = 5, "Initiate"
    FINISH = 6, "Finish"


class EapType(Registry):
    """Types (RFC 3748, section 5). 1 to 3 are not methods; 254 is followed by a vendor and its own type."""

    IDENTITY = 1, "Identity"
    NOTIFICATION = 2, "Notification"
    NAK = 3, "Nak"
    MD5 = 4, "EAP-MD5"
    OTP = 5, "EAP-OTP"
    GTC = 6, "EAP-GTC"
    RSA_PKA = 9, "EAP-RSA-PKA"
    DSS = 10, "EAP-DSS"
    KEA = 11, "EAP-KEA"
    KEA_VALIDATE = 12, "EAP-KEA-VALIDATE"
    TLS = 13, "EAP-TLS"
    AXENT = 14, "EAP-AXENT"
    RSA_SECURID = 15, "EAP-RSA-SECURID"
    ARCOT = 16, "EAP-ARCOT"
    LEAP = 17, "EAP-LEAP"
    SIM = 18, "EAP-SIM"
    SRP_SHA1 = 19, "EAP-SRP-SHA1"
    TTLS = 21, "EAP-TTLS"
    RAS = 22, "EAP-RAS"
    AKA = 23, "EAP-AKA"
    THREE_COM = 24, "EAP-3COM"
    PEAP = 25
    MSCHAPV2 = 26, "EAP-MSCHAPv2"
    MAKE = 27, "EAP-MAKE"
    CRYPTOCARD = 28, "EAP-CRYPTOCARD"
    MSCHAP_V2 = 29, "EAP-MSCHAP-V2"  # a different method; the one in use is 26
    DYNAMID = 30, "EAP-DYNAMID"
    ROB = 31, "EAP-ROB"
    POTP = 32, "EAP-POTP"
    MS_AUTHENTICATION_TLV = 33, "MS-Authentication-TLV"
    SENTRINET = 34, "EAP-SENTRINET"
    ACTIONTEC = 35, "EAP-ACTIONTEC"
    COGENT = 36, "EAP-COGENT"
    AIRFORTRESS = 37, "EAP-AIRFORTRESS"
    HTTP_DIGEST = 38, "EAP-HTTP-DIGEST"
    SECURESUITE = 39, "EAP-SECURESUITE"
    DEVICECONNECT = 40, "EAP-DEVICECONNECT"
    SPEKE = 41, "EAP-SPEKE"
    MOBAC = 42, "EAP-MOBAC"
    FAST = 43, "EAP-FAST"
    ZLXEAP = 44, "EAP-ZLXEAP"
    LINK = 45, "EAP-LINK"
    PAX = 46, "EAP-PAX"
    PSK = 47, "EAP-PSK"
    SAKE = 48, "EAP-SAKE"
    IKEV2 = 49, "EAP-IKEv2"
    AKA_PRIME = 50, "EAP-AKA'"
    GPSK = 51, "EAP-GPSK"
    PWD = 52, "EAP-pwd"
    EKE = 53, "EAP-EKE"
    PT_EAP = 54, "PT-EAP"
    TEAP = 55, "EAP-TEAP"
    NOOB = 56, "EAP-NOOB"
    EXPANDED = 254, "Expanded"
    EXPERIMENTAL = 255, "Experimental"


#: Methods that carry TLS with flags: RFC 5216, RFC 5281, RFC 4851, RFC 7170 and PEAP.
TLS_METHODS: Final = frozenset({EapType.TLS, EapType.TTLS, EapType.PEAP, EapType.FAST, EapType.TEAP})
#: Methods whose data consist of attributes (RFC 4186, section 8.1; RFC 4187, section 8.1; RFC 9048).
SIM_AKA_METHODS: Final = frozenset({EapType.SIM, EapType.AKA, EapType.AKA_PRIME})


class MsChapOperation(DashedRegistry):
    """Operations of EAP-MSCHAPv2 (draft-kamath-pppext-eap-mschapv2)."""

    CHALLENGE = 1, "Challenge"
    RESPONSE = 2, "Response"
    SUCCESS = 3, "Success"
    FAILURE = 4, "Failure"
    CHANGE_PASSWORD = 7, "Change-Password"


class SimAkaSubtype(DashedRegistry):
    """Subtypes of EAP-SIM, EAP-AKA and EAP-AKA' (RFC 4186, section 8; RFC 4187, section 8.1)."""

    AKA_CHALLENGE = 1, "Challenge"
    AUTHENTICATION_REJECT = 2, "Authentication-Reject"
    SYNCHRONIZATION_FAILURE = 4, "Synchronization-Failure"
    IDENTITY = 5, "Identity"
    START = 10, "Start"
    SIM_CHALLENGE = 11, "Challenge"
    NOTIFICATION = 12, "Notification"
    REAUTHENTICATION = 13, "Reauthentication"
    CLIENT_ERROR = 14, "Client-Error"


class SimAkaAttribute(Registry):
    """Attributes of EAP-SIM, EAP-AKA and EAP-AKA' (RFC 4186, section 10; RFC 4187, section 10; RFC 9048)."""

    AT_RAND = 1
    AT_AUTN = 2
    AT_RES = 3
    AT_AUTS = 4
    AT_PADDING = 6
    AT_NONCE_MT = 7
    AT_PERMANENT_ID_REQ = 10
    AT_MAC = 11
    AT_NOTIFICATION = 12
    AT_ANY_ID_REQ = 13
    AT_IDENTITY = 14
    AT_VERSION_LIST = 15
    AT_SELECTED_VERSION = 16
    AT_FULLAUTH_ID_REQ = 17
    AT_COUNTER = 19
    AT_COUNTER_TOO_SMALL = 20
    AT_NONCE_S = 21
    AT_CLIENT_ERROR_CODE = 22
    AT_KDF_INPUT = 23
    AT_KDF = 24
    AT_IV = 129
    AT_ENCR_DATA = 130
    AT_NEXT_PSEUDONYM = 132
    AT_NEXT_REAUTH_ID = 133
    AT_CHECKCODE = 134
    AT_RESULT_IND = 135
    AT_BIDDING = 136


class SimAkaNotification(Registry):
    """Notification codes (RFC 4186, section 10.18; RFC 4187, section 10.19)."""

    AFTER_AUTHENTICATION = 0, "general failure after authentication"
    DENIED = 1026, "temporarily denied"
    NOT_SUBSCRIBED = 1031, "not subscribed"
    GENERAL_FAILURE = 16384, "general failure"
    SUCCESS = 32768, "success"


class SimAkaClientError(Registry):
    """Client error codes (RFC 4186, section 10.19; RFC 4187, section 10.20)."""

    UNABLE_TO_PROCESS = 0, "unable to process packet"
    UNSUPPORTED_VERSION = 1, "unsupported version"
    TOO_FEW_CHALLENGES = 2, "insufficient number of challenges"
    NOT_FRESH = 3, "RANDs are not fresh"
