//! Judges whether a file system may hold a store's directory.
//!
//! LMDB's locks are in memory that the processes of one kernel share. On a file system that several machines use, each
//! machine would believe that it is the only writer, and they would lose each other's commits.

use std::fs::File;
use std::io;
use std::path::Path;

use super::mounts::{Mount, Mounts};

/// A judgement of a file system.
#[derive(Clone, Debug, PartialEq)]
pub enum Suitability {
    /// Only this machine uses it.
    Local(String),
    /// Other machines may use it.
    Shared(String),
    /// Its type is not known here.
    Unknown(String),
}

/// Types by the number that `statfs` gives, with their names.
const SHARED_NUMBERS: [(u32, &str); 19] = [
    (0x6969, "NFS"),
    (0x517B, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB"),
    (0x564C, "NCP"),
    (0x0BD0_0BD0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x00C3_6400, "CephFS"),
    (0x1983_0326, "BeeGFS"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x0102_1997, "9p"),
    (0x7375_7245, "Coda"),
    (0x2003_0528, "OrangeFS"),
    (0xAAD7_AAEA, "PanFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636F, "OCFS2"),
    (0x786F_4256, "vboxsf"),
    (0xBACB_ACBC, "vmhgfs"),
];

/// Types that are named by modules outside the kernel or have no number of their own, and types of FUSE, whose names follow
/// `fuse.`.
const SHARED_NAMES: [&str; 71] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "ncpfs",
    "lustre",
    "gpfs",
    "ceph",
    "beegfs",
    "fhgfs",
    "afs",
    "9p",
    "coda",
    "pvfs2",
    "orangefs",
    "panfs",
    "wekafs",
    "gfs2",
    "ocfs2",
    "dvs",
    "cvfs",
    "acfs",
    "glusterfs",
    "vboxsf",
    "vmhgfs",
    "prl_fs",
    // On FUSE.
    "sshfs",
    "fuse_sshfs",
    "ceph-fuse",
    "ceph-fs",
    "s3fs",
    "rclone",
    "gcsfuse",
    "goofys",
    "geesefs",
    "mount-s3",
    "mountpoint-s3",
    "juicefs",
    "mfs",
    "moosefs",
    "lizardfs",
    "saunafs",
    "seaweedfs",
    "weed",
    "cvmfs2",
    "cvmfs",
    "davfs",
    "davfs2",
    "curlftpfs",
    "smbnetfs",
    "afpfs",
    "xtreemfs",
    "daos",
    "dfuse",
    "blobfuse",
    "blobfuse2",
    "fuse_dfs",
    "hdfs",
    "alluxio-fuse",
    "alluxio",
    "oneclient",
    "nfs-ganesha",
    "fuse-nfs",
    "vmhgfs-fuse",
    "prl_fsd",
    "pvfs2fuse",
    "orangefs-fuse",
    "terrace",
    "tigrisfs",
    "objectivefs",
];

const LOCAL_NUMBERS: [(u32, &str); 16] = [
    (0xEF53, "ext4"),
    (0x5846_5342, "XFS"),
    (0x9123_683E, "Btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0xF2F5_2010, "F2FS"),
    (0x2FC1_2FC1, "ZFS"),
    (0xCA45_1A4E, "bcachefs"),
    (0x3153_464A, "JFS"),
    (0x5265_4973, "ReiserFS"),
    (0x3434, "NILFS"),
    (0x4D44, "FAT"),
    (0x2011_BAB0, "exFAT"),
    (0x7366_746E, "NTFS"),
    (0x5346_544E, "NTFS"),
    (0x482B, "HFS+"),
];

const FUSE_NUMBER: u32 = 0x6573_5546;
const OVERLAY_NUMBER: u32 = 0x794C_7630;
/// The number of nested overlays that are followed.
const MAX_OVERLAY_DEPTH: u32 = 8;

/// Returns whether a mount's type says that other machines may use its file system, without a look at it.
pub fn may_be_shared(mount: &Mount) -> bool {
    mount.kind.starts_with("fuse") || SHARED_NAMES.contains(&mount.kind.as_str())
}

/// Judges the file system of an open directory.
pub fn judge_directory(directory: &File, mounts: &Mounts) -> io::Result<Suitability> {
    // The number has 32 bits, in a field that is wider on some machines.
    let number = rustix::fs::fstatfs(directory)?.f_type as u32;
    let type_of = |path: &Path| File::open(path).and_then(|file| Ok(rustix::fs::fstatfs(&file)?.f_type as u32)).ok();
    Ok(judge(number, mounts.find(directory), mounts, &type_of, 0))
}

/// Judges a file system by its type's number and its mount. `type_of` returns the number for a path, if it can be read.
fn judge(
    number: u32,
    mount: Option<&Mount>,
    mounts: &Mounts,
    type_of: &dyn Fn(&Path) -> Option<u32>,
    depth: u32,
) -> Suitability {
    let by_number =
        |known: &[(u32, &str)]| known.iter().find(|(n, _)| *n == number).map(|(_, name)| (*name).to_owned());
    if let Some(name) = by_number(&SHARED_NUMBERS) {
        return Suitability::Shared(name);
    }
    let kind = mount.map(|mount| mount.kind.as_str());
    if let (Some(kind), Some(mount)) = (kind, mount) {
        let short = kind.strip_prefix("fuse.").unwrap_or(kind);
        // FUSE without a name of its own: the source is a program's name, such as `terrace` or `JuiceFS:volume`, or a place
        // such as `user@host:/folder` or `https://host/`.
        let program = mount.source.split(':').next().unwrap_or_default().to_lowercase();
        let is_remote_source = mount.source.contains(":/") || SHARED_NAMES.contains(&program.as_str());
        if SHARED_NAMES.contains(&short) || kind.starts_with("fuse") && is_remote_source {
            return Suitability::Shared(if kind == "fuse" {
                format!("fuse, {}", mount.source)
            } else {
                kind.to_owned()
            });
        }
    }
    if number == OVERLAY_NUMBER || kind == Some("overlay") {
        return judge_overlay(mount, mounts, type_of, depth);
    }
    let fallback = || if number == FUSE_NUMBER { "FUSE".into() } else { format!("type {number:#x}") };
    match by_number(&LOCAL_NUMBERS) {
        Some(name) => Suitability::Local(kind.map_or(name, str::to_owned)),
        None => Suitability::Unknown(kind.map_or_else(fallback, str::to_owned)),
    }
}

/// Judges an overlay by its upper directory, where it keeps written files.
fn judge_overlay(
    overlay: Option<&Mount>,
    mounts: &Mounts,
    type_of: &dyn Fn(&Path) -> Option<u32>,
    depth: u32,
) -> Suitability {
    let local = Suitability::Local("overlay".into());
    let Some(upper) = overlay.and_then(|mount| mount.option("upperdir")) else { return local };
    // A container cannot see the machine's paths. The kernel accepts no network file system as an upper directory (they lack
    // whiteouts), so an upper directory that cannot be seen counts as local.
    let Some(number) = type_of(&upper) else { return local };
    let below = mounts.find_by_path(&upper);
    if below == overlay || depth >= MAX_OVERLAY_DEPTH {
        return local;
    }
    let named = |name: String| format!("overlay on {name}");
    match judge(number, below, mounts, type_of, depth + 1) {
        Suitability::Local(name) => Suitability::Local(named(name)),
        Suitability::Shared(name) => Suitability::Shared(named(name)),
        Suitability::Unknown(name) => Suitability::Unknown(named(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXT4_MAGIC: u32 = 0xEF53;
    const UNKNOWN_NUMBER: u32 = 0x1234_5678;

    /// Lines as clusters, containers and desktops have them.
    const SAMPLE_MOUNTS: &str = "\
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
23 22 0:22 / /dev/shm rw,nosuid,nodev shared:4 - tmpfs tmpfs rw,size=263766204k,inode64
24 22 0:24 / /proc rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw
40 22 0:44 / /home rw,relatime shared:30 - nfs4 10.1.0.5:/export/home rw,vers=4.2,rsize=1048576,hard,proto=tcp,local_lock=none
41 22 0:45 / /project rw,relatime shared:31 - lustre 10.2.0.1@o2ib:10.2.0.2@o2ib:/project rw,flock,lazystatfs,noencrypt
42 22 0:46 / /gpfs/fs1 rw,relatime shared:32 - gpfs fs1 rw
43 22 0:47 /volumes/u /ceph rw,relatime shared:33 - ceph 10.3.0.1:6789:/ rw,name=u,secret=<hidden>,acl
44 22 0:48 / /beegfs rw,relatime shared:34 - beegfs beegfs_nodev rw,cfgFile=/etc/beegfs/beegfs-client.conf
45 22 0:49 / /afs rw,relatime shared:35 - afs AFS rw
46 22 0:50 / /mnt/share rw,relatime shared:36 - cifs //nas/share rw,vers=3.1.1,cache=strict,username=u,uid=1000
47 22 0:51 / /mnt/c rw,noatime - 9p C:\\134 rw,dirsync,aname=drvfs;path=C:\\;uid=1000;gid=1000,trans=fd,rfd=8,wfd=8
48 22 0:52 / /home/u/far rw,nosuid,nodev,relatime shared:37 - fuse.sshfs u@login:/scratch rw,user_id=1000,group_id=1000
49 22 0:53 / /gluster rw,relatime shared:38 - fuse.glusterfs gl1:/vol0 rw,user_id=0,group_id=0,default_permissions,allow_other
50 22 0:54 / /cephfuse rw,relatime shared:39 - fuse.ceph-fuse ceph-fuse rw,user_id=0,group_id=0,allow_other
51 22 0:55 / /dav rw,nosuid,nodev,noexec,relatime shared:40 - fuse https://cloud.example.org/dav/ rw,user_id=1000,group_id=1000
52 22 0:56 / /home/u/enc rw,nosuid,nodev,relatime shared:41 - fuse.gocryptfs /home/u/.enc rw,user_id=1000,group_id=1000
53 22 259:3 / /local rw,relatime shared:42 - xfs /dev/nvme1n1p1 rw,attr2,inode64,logbufs=8
54 22 0:57 /job_9041 /tmp rw,relatime - xfs /dev/nvme1n1p1 rw
55 22 0:58 / /with\\040blank rw,relatime - btrfs /dev/sdb1 rw,ssd,subvolid=5,subvol=/
56 22 0:59 / /merged rw,relatime - overlay overlay rw,lowerdir=/a:/b,upperdir=/local/upper,workdir=/local/work
57 22 0:60 / /onceph rw,relatime - overlay overlay rw,lowerdir=/a,upperdir=/cephfuse/upper,workdir=/cephfuse/work
58 22 0:61 / /virt rw,relatime - virtiofs shared rw
60 22 0:63 / /juice rw,relatime shared:43 - fuse JuiceFS:myjfs rw,user_id=0,group_id=0,default_permissions,allow_other
59 22 0:62 / /twice rw,relatime - overlay overlay rw,lowerdir=/a,upperdir=/merged/up\\134,per,workdir=/merged/work
";
    const CONTAINER_MOUNTS: &str = "\
1061 1060 0:97 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/5J:/var/lib/docker/overlay2/l/QX,upperdir=/var/lib/docker/overlay2/f3e1/diff,workdir=/var/lib/docker/overlay2/f3e1/work
1062 1061 0:99 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
1070 1061 259:2 /var/lib/docker/volumes/v/_data /data rw,relatime master:1 - ext4 /dev/nvme0n1p2 rw
";

    fn judged(mounts: &str, path: &str, number: u32, type_of: &dyn Fn(&Path) -> Option<u32>) -> Suitability {
        let mounts = Mounts::parse(mounts.as_bytes());
        judge(number, mounts.find_by_path(Path::new(path)), &mounts, type_of, 0)
    }

    fn nothing_is_seen(_: &Path) -> Option<u32> {
        None
    }

    #[test]
    fn file_systems_of_several_machines_are_told_by_their_mounts() {
        for path in [
            "/home/u/.local/share/terrace",
            "/project/u",
            "/gpfs/fs1/u",
            "/ceph/u",
            "/beegfs/u",
            "/afs/cell/u",
            "/mnt/share/u",
            "/mnt/c/Users",
            "/home/u/far/a",
            "/gluster/u",
            "/cephfuse/u",
            "/dav/u",
            "/juice/u",
        ] {
            let found = judged(SAMPLE_MOUNTS, path, UNKNOWN_NUMBER, &nothing_is_seen);
            assert!(matches!(found, Suitability::Shared(_)), "{path}: {found:?}");
        }
    }

    #[test]
    fn file_systems_of_several_machines_are_told_by_their_numbers_alone() {
        for (number, name) in SHARED_NUMBERS {
            assert_eq!(judge(number, None, &Mounts::default(), &nothing_is_seen, 0), Suitability::Shared(name.into()));
        }
        assert_eq!(judge(EXT4_MAGIC, None, &Mounts::default(), &nothing_is_seen, 0), Suitability::Local("ext4".into()));
        assert_eq!(
            judge(FUSE_NUMBER, None, &Mounts::default(), &nothing_is_seen, 0),
            Suitability::Unknown("FUSE".into())
        );
    }

    #[test]
    fn disks_and_memory_of_this_machine_are_local_and_the_rest_is_unknown() {
        for (path, number, kind) in [
            ("/var/tmp", EXT4_MAGIC, "ext4"),
            ("/dev/shm/u", 0x0102_1994, "tmpfs"),
            ("/local/u", 0x5846_5342, "xfs"),
            ("/with blank/u", 0x9123_683E, "btrfs"),
        ] {
            assert_eq!(
                judged(SAMPLE_MOUNTS, path, number, &nothing_is_seen),
                Suitability::Local(kind.into()),
                "{path}"
            );
        }
        for (path, kind) in [("/home/u/enc", "fuse.gocryptfs"), ("/virt", "virtiofs")] {
            assert_eq!(
                judged(SAMPLE_MOUNTS, path, FUSE_NUMBER, &nothing_is_seen),
                Suitability::Unknown(kind.into()),
                "{path}"
            );
        }
    }

    #[test]
    fn an_overlay_is_what_its_upper_directory_is() {
        let type_of = |path: &Path| {
            let all = [("/merged/up,per", OVERLAY_NUMBER), ("/local", 0x5846_5342), ("/cephfuse", FUSE_NUMBER)];
            all.into_iter().find(|(above, _)| path.starts_with(above)).map(|(_, number)| number)
        };
        let found = |path| judged(SAMPLE_MOUNTS, path, OVERLAY_NUMBER, &type_of);
        assert_eq!(found("/merged/a"), Suitability::Local("overlay on xfs".into()));
        assert_eq!(found("/onceph/a"), Suitability::Shared("overlay on fuse.ceph-fuse".into()));
        assert_eq!(found("/twice/a"), Suitability::Local("overlay on overlay on xfs".into()));
        // Inside a container the upper directory cannot be seen; or its path names the container's own root.
        for type_of in [&nothing_is_seen as &dyn Fn(&Path) -> Option<u32>, &|_| Some(OVERLAY_NUMBER)] {
            assert_eq!(
                judged(CONTAINER_MOUNTS, "/root/s", OVERLAY_NUMBER, type_of),
                Suitability::Local("overlay".into())
            );
        }
        assert_eq!(
            judged(CONTAINER_MOUNTS, "/data/s", EXT4_MAGIC, &nothing_is_seen),
            Suitability::Local("ext4".into())
        );
    }

    #[test]
    fn this_machines_own_mounts_are_found() {
        let mounts = Mounts::read();
        let folder = tempfile::tempdir().expect("a folder");
        let directory = File::open(folder.path()).expect("opens");
        let mount = mounts.find(&directory).expect("a mount");
        assert!(folder.path().starts_with(&mount.point), "{mount:?}");
        let found = judge_directory(&directory, &mounts).expect("judges");
        assert!(matches!(found, Suitability::Local(_)), "tests run on a disk of this machine: {found:?}");
        let shared = File::open("/proc").expect("opens");
        assert_eq!(judge_directory(&shared, &mounts).expect("judges"), Suitability::Unknown("proc".into()));
    }
}
