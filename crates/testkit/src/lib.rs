//! Parts that tests share: random numbers, counted skips, waits, golden stores, servers of Redis and S3, members of etcd, the examples of guides,
//! small disks, and disks that record their writes.

pub mod disk;
mod etcd;
pub mod golden;
pub mod guide;
mod ports;
mod random;
mod redis;
mod s3;
mod skip;
mod small_disk;
mod wait;

pub use etcd::EtcdCluster;
pub use ports::free_ports;
pub use random::{Random, noise};
pub use redis::Redis;
pub use s3::{S3, S3_BUCKET};
pub use skip::{Missing, skip};
pub use small_disk::SmallDisk;
pub use wait::wait_until;
