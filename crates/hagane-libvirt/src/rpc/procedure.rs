//! Numbers of the procedures this crate calls, and of the flags it passes. The numbers are part of the protocol and
//! never change.

pub(super) const CONNECT_OPEN: i32 = 1;
pub(super) const CONNECT_GET_TYPE: i32 = 3;
pub(super) const CONNECT_GET_CAPABILITIES: i32 = 7;
pub(super) const DOMAIN_GET_XML_DESC: i32 = 14;
pub(super) const DOMAIN_LOOKUP_BY_NAME: i32 = 23;
pub(super) const DOMAIN_LOOKUP_BY_UUID: i32 = 24;
pub(super) const DOMAIN_SET_AUTOSTART: i32 = 29;
pub(super) const NETWORK_GET_XML_DESC: i32 = 43;
pub(super) const NETWORK_LOOKUP_BY_NAME: i32 = 46;
pub(super) const CONNECT_SUPPORTS_FEATURE: i32 = 60;
pub(super) const AUTH_LIST: i32 = 66;
pub(super) const AUTH_POLKIT: i32 = 70;
pub(super) const STORAGE_POOL_REFRESH: i32 = 83;
pub(super) const STORAGE_POOL_LOOKUP_BY_NAME: i32 = 84;
pub(super) const STORAGE_POOL_GET_XML_DESC: i32 = 88;
pub(super) const STORAGE_VOL_CREATE_XML: i32 = 93;
pub(super) const STORAGE_VOL_DELETE: i32 = 94;
pub(super) const STORAGE_VOL_LOOKUP_BY_NAME: i32 = 95;
pub(super) const STORAGE_VOL_GET_INFO: i32 = 98;
pub(super) const STORAGE_VOL_GET_XML_DESC: i32 = 99;
pub(super) const STORAGE_VOL_GET_PATH: i32 = 100;
pub(super) const NETWORK_IS_ACTIVE: i32 = 152;
pub(super) const STORAGE_POOL_IS_ACTIVE: i32 = 154;
pub(super) const CONNECT_GET_LIB_VERSION: i32 = 157;
pub(super) const DOMAIN_CREATE_WITH_FLAGS: i32 = 196;
pub(super) const STORAGE_VOL_UPLOAD: i32 = 208;
pub(super) const STORAGE_VOL_DOWNLOAD: i32 = 209;
pub(super) const DOMAIN_GET_STATE: i32 = 212;
pub(super) const DOMAIN_UNDEFINE_FLAGS: i32 = 231;
pub(super) const DOMAIN_DESTROY_FLAGS: i32 = 234;
pub(super) const STORAGE_VOL_RESIZE: i32 = 260;
pub(super) const CONNECT_LIST_ALL_STORAGE_POOLS: i32 = 281;
pub(super) const STORAGE_POOL_LIST_ALL_VOLUMES: i32 = 282;
pub(super) const CONNECT_LIST_ALL_NETWORKS: i32 = 283;
pub(super) const NETWORK_UPDATE: i32 = 291;
pub(super) const DOMAIN_EVENT_CALLBACK_REGISTER_ANY: i32 = 316;
pub(super) const DOMAIN_EVENT_CALLBACK_LIFECYCLE: i32 = 318;
pub(super) const NETWORK_GET_DHCP_LEASES: i32 = 341;
pub(super) const CONNECT_GET_DOMAIN_CAPABILITIES: i32 = 342;
pub(super) const DOMAIN_DEFINE_XML_FLAGS: i32 = 350;
pub(super) const DOMAIN_INTERFACE_ADDRESSES: i32 = 353;

pub(super) const KEEPALIVE_PING: i32 = 1;
pub(super) const KEEPALIVE_PONG: i32 = 2;

/// Feature: the connection may carry keepalive messages. Asking for it tells libvirtd that we answer them.
pub(super) const FEATURE_KEEPALIVE: i32 = 10;
/// Feature: events are sent to callbacks by id.
pub(super) const FEATURE_EVENT_CALLBACK: i32 = 14;
/// Feature: `NETWORK_UPDATE` takes command and section in the documented order. A daemon that has it swaps them for a
/// client that never asked for it.
pub(super) const FEATURE_NETWORK_UPDATE_ORDER: i32 = 16;

pub(super) const AUTH_NONE: i32 = 0;
pub(super) const AUTH_TYPE_POLKIT: i32 = 2;

pub(super) const EVENT_LIFECYCLE: i32 = 0;

/// Undefine together with managed save image, snapshot and checkpoint records, NVRAM and TPM state; then, for drivers
/// that refuse flags they do not know, with less and less of it.
pub(super) const UNDEFINE_FLAGS: [u32; 3] = [1 | 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5, 1 | 1 << 1 | 1 << 2, 1 | 1 << 1];

pub(super) const LIST_POOLS_ACTIVE: u32 = 1 << 1;

pub(super) const UPLOAD_SPARSE: u32 = 1;

pub(super) const XML_INACTIVE_NETWORK: u32 = 1;
pub(super) const XML_INACTIVE_DOMAIN: u32 = 1 << 1;

pub(super) const UPDATE_DELETE: u32 = 2;
pub(super) const UPDATE_ADD_LAST: u32 = 3;
pub(super) const SECTION_IP_DHCP_HOST: u32 = 4;
pub(super) const AFFECT_LIVE: u32 = 1;
pub(super) const AFFECT_CONFIG: u32 = 2;

pub(super) const ADDRESSES_FROM_LEASES: u32 = 0;
pub(super) const ADDRESSES_FROM_ARP: u32 = 2;

pub(super) const CONNECT_LIST_ALL_DOMAINS: i32 = 273;
