//! Destroys a store: first the contents of its targets, then its own directory, so that a killed `destroy` can be repeated.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_catalog::TargetId;
use terrace_catalog::check_pages;
use terrace_format::REACH_FILE;
use terrace_system::reserve::{RESERVE_FILE, Reserve};
use terrace_system::split_leftover;
use terrace_tier::removal;
use terrace_tier::{Ids, OWNER_FILE, TargetFound, TargetOwner};

use super::Store;
use crate::config::{Config, TargetConfig, TierConfig};
use crate::discard::Discard;
use crate::home::{
    DESTROYED_LINE, FORMAT_VERSION, MOUNTS_FILE, OPENED_FILE, SALVAGE_FILE, SCRUB_RECORD_LOCK, boot, check_id,
    describe_copy, find_original, lock_store, read_config, read_state, refuse, refuse_if_shared, write_file,
};
use crate::journal::{NOTES_LOCK, SERVICE_COPIES_FOLDER};
use crate::mover::rules::NOTE_LOCK;
use crate::mover::unplanned::{FOLLOWING_LOCK, LIST_FILE, LIST_LOCK};
use crate::report::{RemainState, Remains, TargetRemains, TierRemains};
use crate::{Error, Result, key};

/// The folders in a store's directory.
const OWN_FOLDERS: [&str; 8] =
    ["catalog", "datasets", "dumps", "keepers", "leases", "preload", SERVICE_COPIES_FOLDER, "streams"];
/// Names of folders that end with a number.
const NUMBERED_FOLDERS: [&str; 2] = ["object-", "service-copies.damaged-"];
/// Files, except those that identify the store.
const OWN_FILES: [&str; 33] = [
    RESERVE_FILE,
    "boot",
    REACH_FILE,
    "mover",
    NOTES_LOCK,
    "node",
    "place",
    "scrubbed",
    SCRUB_RECORD_LOCK,
    "lost",
    "copies",
    "appends",
    "origin-reads",
    "origin-turns",
    "cache.lock",
    "open-files",
    "rules",
    NOTE_LOCK,
    LIST_FILE,
    LIST_LOCK,
    FOLLOWING_LOCK,
    "rules.lock",
    "predictor.json",
    "predictor.streams",
    "trusted",
    "hotness",
    "hotness.lock",
    "lock",
    "machine",
    MOUNTS_FILE,
    OPENED_FILE,
    OWNER_FILE,
    SALVAGE_FILE,
];
/// Files that identify the store, in the order of their removal. Older versions wrote the second one as `terrace`.
const LAST_FILES: [&str; 3] = ["terrace", "terrace.toml", "store"];
/// Names of files that end with a number.
const NUMBERED_FILES: [&str; 14] = [
    "cache-uses-",
    "copied-",
    "emptied-",
    "incarnation-",
    "log-behind-",
    "names-",
    "names-due-",
    "newer-",
    "reach-",
    "segments-",
    "sweep-due-",
    "target-",
    "throttle-",
    "used-",
];

/// One target of the store, as the configuration has it.
struct Described<'a> {
    tier: &'a TierConfig,
    at: &'a TargetConfig,
    number: TargetId,
}

impl Store {
    /// Lists the parts of the store in `dir` that [`Store::destroy`] would remove. Nothing is changed.
    ///
    /// # Errors
    /// If there is no store.
    pub fn remains(dir: &Path) -> Result<Remains> {
        let (id, is_begun) = read_state(dir)?;
        let store = if is_begun { None } else { Some(Store::open(dir)) };
        find_remains(dir, id, store.as_ref().map(Result::as_ref))
    }

    /// Removes the store in `dir`: its files on the targets, then its own directory. Files of other programs stay, and are
    /// named in the result. If it is killed, it can be repeated. No other process may have the store open.
    ///
    /// # Errors
    /// If the file `store` holds a wrong id. Without `force`, if the store holds objects, if they cannot be counted, or if a target is
    /// away. Then nothing is changed.
    pub fn destroy(dir: &Path, force: bool) -> Result<Remains> {
        refuse_if_shared(dir)?;
        let (id, is_begun) = read_state(dir)?;
        let dir = &fs::canonicalize(dir).map_err(Error::io(format!("opening {}", dir.display())))?;
        let mut remains = match is_begun {
            true => find_remains(dir, id, None)?,
            false => begin(dir, id, force)?,
        };
        let lock = lock_store(dir)?;
        boot::alone(dir, &lock)?;
        let config = config_of(dir, true)?;
        for (of, found) in described(&config).zip(&mut remains.targets) {
            if found.state == RemainState::Present {
                let left = of.remove(dir, id).map_err(Error::io(format!("emptying {}", found.target)))?;
                remains.kept.extend(left);
                terrace_system::fail::point("destroy:target");
            }
        }
        let left = remove_own(dir).map_err(Error::io(format!("removing {}", dir.display())))?;
        remains.kept.extend(left);
        // A target's directory may lie in the store's.
        remains.kept.sort();
        remains.kept.dedup();
        Ok(remains)
    }
}

/// Checks that the store may be destroyed, and notes that this has begun. From then on no process opens the store.
fn begin(dir: &Path, id: u64, force: bool) -> Result<Remains> {
    let begin = |opened: Result<&Store, &Error>| {
        let remains = find_remains(dir, id, Some(opened))?;
        check_allowed(dir, &remains, force)?;
        let text = format!("format {FORMAT_VERSION}\nid {id:016x}\n{DESTROYED_LINE}\n");
        Reserve::new(dir).run_with(|| write_file(&dir.join("store"), text.as_bytes()))?;
        terrace_system::fail::point("destroy:begun");
        Ok(remains)
    };
    // With a wrong id, the store would leave its targets behind as another one's.
    check_id(dir, id)?;
    match check_catalog(dir).and_then(|()| Store::open(dir)) {
        // No other process has it open, so the count includes everything that is removed.
        Ok(store) => store.alone(|_| begin(Ok(&store))),
        Err(error) => {
            let lock = lock_store(dir)?;
            boot::alone(dir, &lock)?;
            begin(Err(&error))
        }
    }
}

/// Refuses a damaged catalog, which could end the process while the store is opened.
fn check_catalog(dir: &Path) -> Result<()> {
    if boot::has_catalog(dir) { Ok(check_pages(&dir.join("catalog"))?) } else { Ok(()) }
}

/// Returns the contents of a store, whether it can be opened or not. `opened` is none if the store is being destroyed.
fn find_remains(dir: &Path, id: u64, opened: Option<Result<&Store, &Error>>) -> Result<Remains> {
    let config = config_of(dir, opened.is_none())?;
    let targets = described(&config).map(|of| of.find_remains(dir, id)).collect();
    let mut remains = Remains { objects: None, bytes: None, records: 0, unreadable: None, targets, kept: Vec::new() };
    match opened {
        Some(Ok(store)) => {
            let (mut objects, mut bytes) = (0, 0_u64);
            store.engine.catalog.each_object(b"", |key, object, _| {
                match key::below(key, key::RESERVED_FOLDER) {
                    true => remains.records += 1,
                    false => {
                        objects += 1;
                        bytes = bytes.saturating_add(object.length);
                    }
                }
                Ok::<_, Error>(true)
            })?;
            (remains.objects, remains.bytes) = (Some(objects), Some(bytes));
        }
        Some(Err(error)) => remains.unreadable = Some(error.to_string()),
        None => {}
    }
    Ok(remains)
}

fn counted(count: u64, of: &str) -> String {
    format!("{count} {of}{}", if count == 1 { "" } else { "s" })
}

fn check_allowed(dir: &Path, remains: &Remains, force: bool) -> Result<()> {
    let reason = match (remains.objects, &remains.unreadable) {
        (Some(0), _) if remains.records == 0 => None,
        (Some(0), _) => Some(format!(
            "it holds no object, but {} of its own, such as requests of streams that may not be delivered",
            counted(remains.records, "record")
        )),
        (Some(objects), _) => {
            Some(format!("it holds {} ({} bytes)", counted(objects, "object"), remains.bytes.unwrap_or(0)))
        }
        (None, why) => Some(format!("what it holds cannot be counted ({})", why.as_deref().unwrap_or("unknown"))),
    };
    let away = remains.targets.iter().find(|target| target.state == RemainState::Away);
    let away = || away.map(|target| format!("{} is away and would be left behind ({})", target.target, target.reason));
    if let Some(reason) = reason.or_else(away).filter(|_| !force) {
        let advice = "nothing was changed; `terrace destroy --force` destroys it for good";
        return Err(refuse(dir, &format!("{reason}; {advice}")));
    }
    for target in remains.targets.iter().filter(|target| target.state == RemainState::Present) {
        let what = format!("all of the store on {}", target.target);
        let (count, bytes) = (remains.objects.unwrap_or(1) as usize, target.used);
        Discard { what: &what, why: "the store is destroyed", count, bytes, of_bytes: bytes }.allow(force)?;
    }
    Ok(())
}

/// Reads the configuration. It may be missing if only the store's own directory is left.
fn config_of(dir: &Path, is_begun: bool) -> Result<Config> {
    if is_begun && !dir.join("terrace.toml").exists() {
        return Ok(Config { store: Default::default(), rules: Vec::new(), origins: Vec::new(), tiers: Vec::new() });
    }
    read_config(dir)
}

fn described(config: &Config) -> impl Iterator<Item = Described<'_>> {
    let all = config.tiers.iter().flat_map(|tier| tier.targets.iter().map(move |at| (tier, at)));
    (0..).zip(all).map(|(place, (tier, at))| Described { tier, at, number: at.number.unwrap_or(place) })
}

impl Described<'_> {
    fn owner(&self, dir: &Path, store: u64) -> TargetOwner {
        TargetOwner { store, number: self.number, dir: dir.to_owned(), ids: Arc::new(NoIds) }
    }

    fn find_remains(&self, dir: &Path, store: u64) -> TargetRemains {
        let owner = self.owner(dir, store);
        let was_made = self.tier.persistent && owner.was_made();
        let original = find_original(dir, store);
        let (state, used, reason) = match original.map(|original| describe_copy(&original)) {
            Some(is_copy) => (RemainState::Away, 0, is_copy),
            None => self.find(&owner, was_made),
        };
        let target = self.tier.place_name(self.at).display().to_string();
        TargetRemains { tier: self.tier.name.clone(), target, used, state, reason }
    }

    fn find(&self, owner: &TargetOwner, was_made: bool) -> (RemainState, u64, String) {
        match self.tier.kind.find(&self.tier.settings(self.at), owner) {
            Ok(TargetFound::Own { used }) => (RemainState::Present, used, String::new()),
            Ok(TargetFound::Nothing) if was_made => (RemainState::Away, 0, "the target's marker is missing".to_owned()),
            Ok(TargetFound::Nothing) => (RemainState::Nothing, 0, String::new()),
            Ok(TargetFound::Another(mark)) => {
                let whose = mark.lines().next().unwrap_or_default().to_owned();
                (RemainState::Away, 0, format!("it belongs to another store or target ({whose})"))
            }
            Err(e) => (RemainState::Away, 0, e.to_string()),
        }
    }

    /// Removes the store's files on this target. Returns the files of other programs, which stay.
    fn remove(&self, dir: &Path, store: u64) -> io::Result<Vec<PathBuf>> {
        self.tier.kind.remove(&self.tier.settings(self.at), &self.owner(dir, store))
    }
}

/// Removes all that a store has made so far whose creation failed, so that it can be tried again. What cannot be removed stays: the error of
/// the creation is the one to report.
pub(super) fn take_back(dir: &Path, id: u64, config: &Config) {
    // First, since without this file there is no store.
    let _ = fs::remove_file(dir.join("store"));
    for of in described(config) {
        // The id is new, so nobody else has made a target of it.
        if let Ok(TargetFound::Own { .. }) = of.tier.kind.find(&of.tier.settings(of.at), &of.owner(dir, id)) {
            let _ = of.remove(dir, id);
        }
    }
    let _ = remove_own(dir);
}

/// For targets that are emptied, which need no numbers for new frames.
pub(super) struct NoIds;

impl Ids for NoIds {
    fn next(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Returns a target that the store has made and that cannot be reached, if any.
pub(super) fn find_away(dir: &Path, id: u64, config: &Config) -> Option<TargetRemains> {
    described(config).map(|of| of.find_remains(dir, id)).find(|target| target.state == RemainState::Away)
}

/// Fails if another copy of the store's directory uses a target.
pub(super) fn check_unused(dir: &Path, id: u64, config: &Config) -> Result<()> {
    for of in described(config) {
        match of.tier.kind.find(&of.tier.settings(of.at), &of.owner(dir, id)) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {
                return Err(Error::io(format!("looking at {}", of.tier.place_name(of.at).display()))(e));
            }
            // Other errors are reported when the target is opened.
            _ => {}
        }
    }
    Ok(())
}

/// Removes the store's files on the targets of a tier that its configuration no longer names. Returns what stays.
pub(super) fn remove_targets(dir: &Path, tier: &TierConfig) -> Result<TierRemains> {
    let (id, _) = read_state(dir)?;
    let mut remains = TierRemains::default();
    for at in &tier.targets {
        let Some(number) = at.number else { continue };
        let of = Described { tier, at, number };
        let found = of.find_remains(dir, id);
        match found.state {
            RemainState::Present => {
                let kept = of.remove(dir, id).map_err(Error::io(format!("emptying {}", found.target)))?;
                remains.kept.extend(kept);
            }
            RemainState::Away => remains.left.push(found),
            RemainState::Nothing => {}
        }
    }
    Ok(remains)
}

/// Returns whether a file or folder of this name in a store's directory belongs to the store.
pub(super) fn is_own_name(name: &str) -> bool {
    is_own_file(name) || OWN_FOLDERS.contains(&name) || has_number(name, &NUMBERED_FOLDERS) || name == "log"
}

/// Returns whether a file of this name in a store's directory belongs to the store.
pub(super) fn is_own_file(name: &str) -> bool {
    OWN_FILES.contains(&name) || LAST_FILES.contains(&name) || has_number(name, &NUMBERED_FILES)
}

fn has_number(name: &str, before: &[&str]) -> bool {
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    before.iter().any(|before| name.strip_prefix(before).is_some_and(is_number))
}

/// Removes Terrace's files in the store's own directory, those that identify the store last. Returns the files that are
/// left.
pub(super) fn remove_own(dir: &Path) -> io::Result<Vec<PathBuf>> {
    removal::remove_logs(dir)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // A process that was killed while it replaced a file leaves its new version behind.
        let leftover = split_leftover(&name).map(|(file, _)| file);
        if OWN_FOLDERS.contains(&name.as_str()) || has_number(&name, &NUMBERED_FOLDERS) {
            fs::remove_dir_all(entry.path())?;
        } else if is_own_file(leftover.unwrap_or(&name)) && (leftover.is_some() || !LAST_FILES.contains(&name.as_str()))
        {
            removal::remove_file(&entry.path())?;
        }
    }
    terrace_system::fail::point("destroy:own");
    for last in LAST_FILES {
        removal::remove_file(&dir.join(last))?;
    }
    removal::remove_emptied(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the page did not name a file, nobody could know whether it may be deleted.
    #[test]
    fn the_page_on_the_format_names_all_that_is_removed() {
        let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/format.md"));
        let folders = OWN_FOLDERS.iter().map(|name| format!("`{name}/"));
        let numbered_folders = NUMBERED_FOLDERS.iter().map(|name| format!("`{name}N/`"));
        let files = OWN_FILES.iter().chain(&LAST_FILES[1..]).map(|name| format!("`{name}`"));
        let numbered = NUMBERED_FILES.iter().map(|name| format!("`{name}N`"));
        for name in folders.chain(numbered_folders).chain(files).chain(numbered) {
            assert!(page.contains(&name), "docs/format.md has no {name}");
        }
    }
}
