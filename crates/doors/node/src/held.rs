//! The store that the node keeps open.

use rustix_futex_sync::RwLock;
use terrace::Store;

/// The store that the node keeps open. It is taken out only while it is opened again.
pub type Held = RwLock<Option<Store>>;
