//! `/oauth/…`: the pages on which users decide what applications may do (RFC 6749, RFC 8628).

mod authorization_params;
pub(super) mod authorize;
pub(super) mod device;
