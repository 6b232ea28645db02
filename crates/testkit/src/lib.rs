//! Parts that tests share: random numbers, counted skips, what tests need of the machine, waits, golden stores, a Redis server, one of S3, members of etcd,
//! the examples of guides,
//! small disks, folders that ignore case, and disks that record their writes.

mod caseless_folder;
pub mod disk;
mod etcd;
pub mod golden;
pub mod guide;
mod moto;
mod needs;
mod ports;
mod proxy;
mod random;
mod redis;
mod running;
mod skip;
mod small_disk;
mod wait;

pub use caseless_folder::CaselessFolder;
pub use etcd::EtcdCluster;
pub use moto::Moto;
pub use needs::{python_with, real_files};
pub use ports::free_ports;
pub use proxy::Proxy;
pub use random::{Random, noise};
pub use redis::Redis;
pub use running::{Running, downloads, find_server};
pub use skip::{Missing, skip};
pub use small_disk::SmallDisk;
pub use wait::wait_until;
