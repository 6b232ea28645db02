//! Makes the clients of origins.

use std::io;
use std::sync::Arc;

use terrace_tier::{DirectoryOrigin, Origin, OriginAddress, OriginPlace};

use crate::config::OriginConfig;

/// The longest time that a call of a service may take, with all its retries.
#[cfg(feature = "object")]
const MAX_CALL_TIME: std::time::Duration = std::time::Duration::from_secs(30);

/// Makes the client of an origin. A service is not contacted yet.
///
/// # Errors
/// If its address or options are not valid, or the service is not compiled in.
pub fn open_origin(origin: &OriginConfig) -> io::Result<Arc<dyn Origin>> {
    match OriginAddress::parse(&origin.url, &origin.options)? {
        OriginPlace::Directory(path) => Ok(Arc::new(DirectoryOrigin::new(&path, origin.inode))),
        #[cfg(feature = "object")]
        OriginPlace::Service { name, mut options, root } => {
            options.extend(origin.options.clone());
            let service = terrace_tier::Service { name, options, root, timeout: MAX_CALL_TIME };
            Ok(Arc::new(terrace_tier::ServiceOrigin::new(&service)?))
        }
        #[cfg(not(feature = "object"))]
        OriginPlace::Service { name, .. } => {
            let reason = format!("service {name:?} is not compiled in; the cargo feature services-{name} does that");
            Err(io::Error::new(io::ErrorKind::Unsupported, reason))
        }
    }
}
