//! Finds directories on this machine's own disks for a store, and says when they are emptied.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::filesystem::{Suitability, judge_directory};
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
const USUAL_DIRECTORIES: [&str; 3] = ["/var/tmp", "/tmp", "/dev/shm"];
/// Mounts that belong to the system.
const SYSTEM_DIRECTORIES: [&str; 12] =
    ["/boot", "/dev", "/efi", "/etc", "/nix", "/proc", "/root", "/run", "/snap", "/sys", "/usr", "/var/lib"];
const MEMORY_KINDS: [&str; 2] = ["tmpfs", "ramfs"];

/// Returns directories that could hold a store, each with a description.
pub fn suggest_directories(mounts: &Mounts) -> Vec<String> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let named = DIRECTORY_VARIABLES.iter().filter_map(|name| variable(name)).map(PathBuf::from);
    let job = JOB_VARIABLES.iter().find_map(|name| variable(name)?.into_string().ok());
    let mut found: Vec<String> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    for path in candidates(named, mounts) {
        let Ok(path) = path.canonicalize() else { continue };
        if found.len() < MAX_SUGGESTIONS
            && !seen.contains(&path)
            && let Some(words) = describe_directory(&path, mounts, job.as_deref())
        {
            seen.push(path);
            found.push(words);
        }
    }
    found
}

fn candidates(named: impl Iterator<Item = PathBuf>, mounts: &Mounts) -> Vec<PathBuf> {
    let is_system =
        |point: &Path| point == Path::new("/") || SYSTEM_DIRECTORIES.iter().any(|system| point.starts_with(system));
    let mounted = mounts.0.iter().filter(|mount| !mount.read_only && !is_system(&mount.point));
    let mounted = mounted.map(|mount| mount.point.clone());
    let (usual, mut all) = (USUAL_DIRECTORIES.map(PathBuf::from), named.collect::<Vec<_>>());
    all.extend(mounted.filter(|point| !usual.contains(point)));
    all.extend(usual);
    all
}

/// Describes a directory, if it could hold a store.
fn describe_directory(path: &Path, mounts: &Mounts, job: Option<&str>) -> Option<String> {
    let directory = File::open(path).ok()?;
    let Ok(Suitability::Local(kind)) = judge_directory(&directory, mounts) else { return None };
    rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).ok()?;
    let space = rustix::fs::fstatvfs(&directory).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free < MIN_FREE_BYTES {
        return None;
    }
    let root = mounts.find(&directory).map(|mount| mount.root.clone()).unwrap_or_default();
    let lasts = describe_lifetime(path, &root, &kind, job);
    Some(format!("{} ({kind}, {} free{lasts})", path.display(), Bytes(free & !0xF_FFFF)))
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

    #[test]
    fn directories_of_this_machine_are_suggested() {
        let found = suggest_directories(&Mounts::read());
        assert!(!found.is_empty() && found.len() <= MAX_SUGGESTIONS, "{found:?}");
        assert!(found.iter().all(|words| words.starts_with('/') && words.contains(" free")), "{found:?}");
    }
}
