//! Finds directories on this machine's own disks for a store, and says when they are emptied.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::filesystem::{Suitability, judge_directory, may_be_shared};
use super::mounts::Mounts;
use crate::config::Bytes;

/// The least free space of a suggested directory.
const MIN_FREE_BYTES: u64 = 64 << 20;
const MAX_SUGGESTIONS: usize = 6;
/// Variables with which schedulers and sites name a job's own directory.
const DIRECTORY_VARIABLES: [&str; 6] =
    ["SLURM_TMPDIR", "TMPDIR", "LOCAL_SCRATCH", "LOCALSCRATCH", "JOBSCRATCH", "LSCRATCH"];
/// The number of the job that this process belongs to: Slurm, PBS, LSF, Grid Engine, Flux.
const JOB_VARIABLES: [&str; 5] = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "FLUX_JOB_ID"];
/// Usual names of directories on a machine's own disks.
const USUAL_DIRECTORIES: [&str; 8] =
    ["/var/tmp", "/tmp", "/scratch", "/local", "/local/scratch", "/localscratch", "/lscratch", "/mnt/resource"];
/// Mounts that belong to the system.
const SYSTEM_DIRECTORIES: [&str; 12] =
    ["/boot", "/dev", "/efi", "/etc", "/nix", "/proc", "/root", "/run", "/snap", "/sys", "/usr", "/var/lib"];
const MEMORY_KINDS: [&str; 2] = ["tmpfs", "ramfs"];

/// A directory that could hold a store.
struct Suggestion {
    path: PathBuf,
    free: u64,
    words: String,
}

/// Returns directories that could hold a store, each with a description.
pub fn suggest_directories(mounts: &Mounts) -> Vec<String> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let named = DIRECTORY_VARIABLES.iter().filter_map(|name| variable(name)).map(PathBuf::from);
    let job = JOB_VARIABLES.iter().find_map(|name| variable(name)?.into_string().ok());
    let describe = |path: PathBuf| describe_directory(&path, mounts, job.as_deref());
    let is_system =
        |point: &Path| point == Path::new("/") || SYSTEM_DIRECTORIES.iter().any(|system| point.starts_with(system));
    let mounted = mounts.0.iter().filter(|mount| !mount.read_only && !is_system(&mount.point));
    let usual = named.chain(USUAL_DIRECTORIES.map(PathBuf::from)).filter_map(describe).collect();
    let mounted = mounted.map(|mount| mount.point.clone()).filter_map(describe).collect();
    choose_first(usual, mounted, describe("/dev/shm".into()))
}

/// Returns the first suggestions: the usual ones in their order, then mounts by their free space, then memory.
fn choose_first(usual: Vec<Suggestion>, mut mounted: Vec<Suggestion>, memory: Option<Suggestion>) -> Vec<String> {
    mounted.sort_by_key(|suggestion| Reverse(suggestion.free));
    let mut seen = HashSet::new();
    let all = usual.into_iter().chain(mounted).chain(memory);
    let distinct = all.filter_map(|Suggestion { path, words, .. }| seen.insert(path).then_some(words));
    distinct.take(MAX_SUGGESTIONS).collect()
}

/// Describes a directory, if it could hold a store.
fn describe_directory(path: &Path, mounts: &Mounts, job: Option<&str>) -> Option<Suggestion> {
    // A look at a file system whose server is away may never end.
    if mounts.find_by_path(path).is_some_and(may_be_shared) {
        return None;
    }
    let path = path.canonicalize().ok()?;
    let directory = File::open(&path).ok()?;
    let Ok(Suitability::Local(kind)) = judge_directory(&directory, mounts) else { return None };
    rustix::fs::access(&path, Access::WRITE_OK | Access::EXEC_OK).ok()?;
    let space = rustix::fs::fstatvfs(&directory).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free < MIN_FREE_BYTES {
        return None;
    }
    let root = mounts.find(&directory).map(|mount| mount.root.clone()).unwrap_or_default();
    let lasts = describe_lifetime(&path, &root, &kind, job);
    let words = format!("{} ({kind}, {} free{lasts})", path.display(), Bytes(free & !0xF_FFFF));
    Some(Suggestion { path, free, words })
}

/// Says when the directory is emptied, if that is known.
fn describe_lifetime(path: &Path, mount_root: &Path, kind: &str, job: Option<&str>) -> String {
    // Schedulers use a job's number in the names of its directories, even if they mount one of them over /tmp.
    let names_job = |path: &Path, job: &str| {
        path.iter().any(|part| part.to_string_lossy().split(|c: char| !c.is_ascii_digit()).any(|number| number == job))
    };
    // PBS has numbers such as `123.server`.
    let number = job.map(|job| job.split(|c: char| !c.is_ascii_digit()).next().unwrap_or(job));
    if let Some(job) = number.filter(|job| !job.is_empty() && (names_job(path, job) || names_job(mount_root, job))) {
        return format!(", emptied when job {job} ends");
    }
    let memory = MEMORY_KINDS.contains(&kind);
    match path.to_str() {
        _ if memory => ", in memory: a reboot empties it".into(),
        Some("/tmp") => ", may be emptied by a reboot".into(),
        Some("/var/tmp") => ", kept over reboots, but old files may be deleted".into(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_empties_a_directory_is_said() {
        let lifetime =
            |path: &str, root: &str, kind: &str, job| describe_lifetime(Path::new(path), Path::new(root), kind, job);
        assert_eq!(lifetime("/local/slurm.9041", "/", "xfs", Some("9041")), ", emptied when job 9041 ends");
        assert_eq!(lifetime("/tmp", "/slurm/9041/.9041", "xfs", Some("9041")), ", emptied when job 9041 ends");
        assert_eq!(lifetime("/dev/shm", "/job_77", "tmpfs", Some("77.server")), ", emptied when job 77 ends");
        assert_eq!(lifetime("/dev/shm", "/", "tmpfs", Some("9")), ", in memory: a reboot empties it");
        assert_eq!(lifetime("/local/94", "/", "xfs", Some("9")), "");
        assert_eq!(lifetime("/tmp", "/", "ext4", None), ", may be emptied by a reboot");
    }

    /// Of a machine with small mounts below /tmp, the first six were suggested, and neither /tmp nor a large disk.
    #[test]
    fn usual_directories_come_first_and_small_mounts_late() {
        let suggestion = |path: &str, free: u64| Suggestion { path: path.into(), free, words: path.to_owned() };
        let small = (0..8).map(|n| suggestion(&format!("/tmp/w/{n}"), 100 << 20));
        let mounted = small.chain([suggestion("/data", 1 << 40), suggestion("/tmp", 1 << 30)]).collect();
        let usual = ["/job/9", "/var/tmp", "/tmp"].map(|path| suggestion(path, 1 << 30)).into();
        let found = choose_first(usual, mounted, Some(suggestion("/dev/shm", 1 << 30)));
        assert_eq!(found, ["/job/9", "/var/tmp", "/tmp", "/data", "/tmp/w/0", "/tmp/w/1"]);
    }

    #[test]
    fn directories_of_this_machine_are_suggested() {
        let found = suggest_directories(&Mounts::read());
        assert!(!found.is_empty() && found.len() <= MAX_SUGGESTIONS, "{found:?}");
        assert!(found.iter().all(|words| words.starts_with('/') && words.contains(" free")), "{found:?}");
    }
}
