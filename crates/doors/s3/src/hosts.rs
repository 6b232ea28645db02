//! [`Hosts`]: what the name of the host in a request means.

use std::net::IpAddr;

use hyper::http::uri::Authority;
use s3s::host::{S3Host, VirtualHost};
use s3s::{S3Result, s3_error};

/// The names by which clients reach the server.
pub struct Hosts {
    /// The domain whose subdomains are buckets.
    pub domain: Option<String>,
    /// Whether requests need no signature.
    pub is_open: bool,
}

impl S3Host for Hosts {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let wrong = || s3_error!(InvalidRequest, "the header Host names no host");
        let authority: Authority = host.parse().map_err(|_| wrong())?;
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        if let Some(domain) = &self.domain
            && let Some(bucket) = name.strip_suffix(domain.as_str())
        {
            match bucket.strip_suffix('.') {
                Some(bucket) => return Ok(VirtualHost::new(domain).with_bucket(bucket.to_owned())),
                None if bucket.is_empty() => return Ok(VirtualHost::new(domain)),
                None => {}
            }
        }
        // A page of another site may let its own host name point to this machine's address, and so use what only this machine may.
        if self.is_open && !name.eq_ignore_ascii_case("localhost") && name.parse::<IpAddr>().is_err() {
            return Err(s3_error!(
                AccessDenied,
                "name this machine by its address or as localhost, or start the server with --keys"
            ));
        }
        Ok(VirtualHost::new(host))
    }
}
