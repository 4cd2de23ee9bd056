//! Which headers the core reads itself, by their numbers, and which packets it hands back to Python.
//!
//! A number that Python decodes and that is missing here would be counted as other traffic:
//! tests/core/test_header_rules.py compares both for every number.

use std::sync::{Arc, Mutex, PoisonError};

use super::frames::{
    Link, Tables, ESP, ETHERTYPE_HAND_BACK, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, OTHER, PORT_4500, PORT_500,
    PORT_DESTINATION, PORT_EITHER, PORT_EXTRA, PORT_TCP, PROTOCOL_HAND_BACK, PROTOCOL_ICMP, PROTOCOL_ICMPV6,
    PROTOCOL_TCP, PROTOCOL_UDP,
};

const VLAN_TAGS: [u16; 5] = [0x8100, 0x88A8, 0x9100, 0x9200, 0x9300];
/// MPLS, PPPoE, PPP, Ethernet in Ethernet, ERSPAN of both versions, MACsec, 802.1ah, NSH.
const HANDED_BACK_ETHERTYPES: [u16; 10] = [
    0x8847, 0x8848, 0x8864, 0x880B, 0x6558, 0x88BE, 0x22EB, 0x88E5, 0x88E7, 0x894F,
];
/// IPv6 extension headers, fragments, AH, HIP, and what may be a tunnel: IP in IP, GRE, EtherIP, L2TP, MPLS.
const HANDED_BACK_PROTOCOLS: [u8; 14] = [0, 43, 60, 135, 140, 44, 51, 139, 4, 41, 47, 97, 115, 137];
/// RADIUS, HIP, and L2TP, of which the answering side may choose another port.
const HANDED_BACK_PORTS: [u16; 6] = [1645, 1646, 1812, 1813, 10500, 1701];
/// GTP-U, VXLAN, VXLAN-GPE, Geneve, VXLAN of Linux, TZSP.
const TUNNEL_PORTS: [u16; 6] = [2152, 4789, 4790, 6081, 8472, 37008];

/// The rules that were asked for last: a batch of packets needs those of the batch before.
static LAST: Mutex<Option<(Vec<u16>, Arc<HeaderRules>)>> = Mutex::new(None);

/// What to do by EtherType, by IP protocol and by port.
#[derive(Debug, PartialEq)]
pub struct HeaderRules {
    ethertypes: Vec<u8>,
    protocols: Vec<u8>,
    ports: Vec<u8>,
}

impl HeaderRules {
    /// `extra`: UDP and TCP ports on which IKE is expected in addition to 500 and 4500.
    pub fn new(extra: &[u16]) -> Self {
        let mut rules = Self {
            ethertypes: vec![0; 1 << 16],
            protocols: vec![OTHER; 1 << 8],
            ports: vec![0; 1 << 16],
        };
        rules.ethertypes[0x0800] = ETHERTYPE_IPV4;
        rules.ethertypes[0x86DD] = ETHERTYPE_IPV6;
        for kind in VLAN_TAGS {
            rules.ethertypes[usize::from(kind)] = ETHERTYPE_VLAN;
        }
        for kind in HANDED_BACK_ETHERTYPES {
            rules.ethertypes[usize::from(kind)] = ETHERTYPE_HAND_BACK;
        }
        for (protocol, rule) in [
            (1, PROTOCOL_ICMP),
            (6, PROTOCOL_TCP),
            (17, PROTOCOL_UDP),
            (50, ESP),
            (58, PROTOCOL_ICMPV6),
        ] {
            rules.protocols[protocol] = rule;
        }
        for protocol in HANDED_BACK_PROTOCOLS {
            rules.protocols[usize::from(protocol)] = PROTOCOL_HAND_BACK;
        }
        rules.add(&[500], PORT_500);
        rules.add(&[4500], PORT_4500 | PORT_TCP);
        rules.add(&HANDED_BACK_PORTS, PORT_EITHER);
        rules.add(&TUNNEL_PORTS, PORT_DESTINATION);
        rules.add(extra, PORT_EXTRA | PORT_TCP);
        rules
    }

    /// The rules of `new`, without making them again for each batch of packets.
    pub fn shared(extra: &[u16]) -> Arc<Self> {
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((ports, rules)) if ports == extra => Arc::clone(rules),
            _ => {
                let rules = Arc::new(Self::new(extra));
                *last = Some((extra.to_vec(), Arc::clone(&rules)));
                rules
            }
        }
    }

    fn add(&mut self, ports: &[u16], flags: u8) {
        for &port in ports {
            self.ports[usize::from(port)] |= flags;
        }
    }

    /// The rules for packets of these interfaces.
    pub fn tables<'a>(&'a self, links: &'a [Link]) -> Tables<'a> {
        Tables {
            links,
            ethertypes: &self.ethertypes,
            protocols: &self.protocols,
            ports: &self.ports,
        }
    }
}

/// The link layer of a LINKTYPE_ number.
pub fn find_link(link_type: u32) -> Link {
    let (size, at) = match link_type {
        1 => (14, 12),               // Ethernet
        113 => (16, 14),             // LINUX_SLL
        276 => (20, 0),              // LINUX_SLL2
        104 => (4, 2),               // C_HDLC
        138 => (18, 16),             // APPLE_IP_OVER_IEEE1394
        242 => (44, 40),             // IPOIB
        281 | 282 | 284 => (18, 16), // DSA_TAG_BRCM, DSA_TAG_BRCM_PREPEND, DSA_TAG_DSA
        285 => (22, 20),             // DSA_TAG_EDSA
        12 | 14 | 101 => return Link::Raw,
        _ => return Link::HandBack,
    };
    Link::EtherType { size, at }
}
