//! Copies stored objects to files.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::json;
use terrace::{Kind, Store};

use super::cat::cat;
use super::file_number::{FileNumber, SAME_NAME, find_alike, find_shared, is_listed};
use super::get_options::Get;
use super::getter::{Getter, Got, Wanted};
use super::out_folder::OutFolder;
use super::replaced_words;
use super::restore::NotRestored;
use crate::inspect::each;
use crate::output::{Show, complain, count, name, path_name, size};

pub fn get(store: &Store, get: &Get, show: Show) -> Result<bool> {
    let folder = OutFolder::new(store, &get.dest);
    if get.dest.as_os_str() != "-" {
        // Before the destination folder is made.
        folder.check().with_context(|| format!("writing {}", path_name(&get.dest)))?;
    }
    let wanted = list_wanted(store, get)?;
    if get.dest.as_os_str() == "-" && !get.dry_run {
        return cat(store, &get.source, get.range.as_ref());
    }
    let bar = show.bar(wanted.iter().map(|w| w.object.length).sum());
    let not_restored = NotRestored::default();
    let getter = Getter { store, get, owner: store.owner()?, folder, bar: &bar, not_restored: &not_restored };
    if !get.dry_run {
        make_private(&wanted, &getter.folder)?;
    }
    let (mut read, mut unchanged, mut failed, mut bytes) = (0, 0, 0, 0);
    let mut would_write = Vec::new();
    for (wanted, got) in wanted.iter().zip(getter.get_all(&wanted)) {
        match got {
            Got::Unchanged => unchanged += 1,
            Got::WouldWrite => would_write.push(wanted.path.as_path()),
            Got::Bytes(length) => {
                read += 1;
                bytes += length;
            }
            Got::Failed => failed += 1,
            Got::Left => {}
        }
    }
    bar.finish_and_clear();
    failed += complain_of_shared(&wanted, &get.dest);
    let replaced = store.repair_suspects()?;
    if get.dry_run {
        for path in &would_write {
            show.line(&format!("would write {}", path_name(path)))?;
        }
        let words = format!("{} to write, {unchanged} unchanged", count(would_write.len() as u64, "file"));
        let would_write: Vec<String> = would_write.iter().map(|path| path.display().to_string()).collect();
        show.result(&json!({"would_write": would_write, "unchanged": unchanged, "failed": failed}), &words)?;
        return Ok(failed == 0);
    }
    let value = json!({
        "read": read, "unchanged": unchanged, "bytes": bytes, "failed": failed, "repaired": replaced.damaged, "changed": replaced.changed,
        "owners_not_restored": not_restored.owners(), "modes_not_restored": not_restored.modes(),
    });
    let read = count(read, "object");
    show.result(&value, &format!("{read} read ({}), {unchanged} unchanged, {failed} failed", size(bytes)))?;
    if let Some(words) = not_restored.words() {
        show.line(&words)?;
    }
    replaced_words(replaced).iter().try_for_each(|words| show.line(words))?;
    Ok(failed == 0)
}

/// Complains of objects whose paths lead to the same file: only one of them is there. Returns the number of the others.
fn complain_of_shared(wanted: &[Wanted], folder: &Path) -> u64 {
    let alike = find_alike(wanted.iter().map(|wanted| wanted.key.as_slice()));
    let is_alike = |number: &usize| alike.binary_search(number).is_ok();
    // Characters that are not ASCII's may be written in several ways. The files of all others are not looked at once more.
    let suspects = wanted.iter().enumerate().filter(|(number, wanted)| is_alike(number) || !wanted.key.is_ascii());
    let suspects: Vec<(usize, &Wanted)> = suspects.collect();
    let found = suspects.iter().map(|(_, wanted)| fs::symlink_metadata(&wanted.path).ok());
    let shared = find_shared(found.map(|found| found.map(|found| FileNumber::of(&found))));
    for places in &shared {
        let keys: Vec<String> = places.iter().filter_map(|place| Some(name(&suspects.get(*place)?.1.key))).collect();
        complain(&format!("{} are one file, {SAME_NAME}", keys.join(" and ")));
    }
    let mut failed = shared.iter().map(|places| places.len() as u64 - 1).sum();
    for (place, (number, wanted)) in suspects.iter().enumerate() {
        let is_told = || shared.iter().any(|places| places.contains(&place));
        if is_alike(number) && !is_told() && wanted.path.exists() && !is_listed(folder, &wanted.path) {
            complain(&format!("{} is not there, {SAME_NAME}", name(&wanted.key)));
            failed += 1;
        }
    }
    failed
}

/// Returns the named object, or all objects below the prefix.
fn list_wanted(store: &Store, get: &Get) -> Result<Vec<Wanted>> {
    let key = get.source.as_bytes();
    match store.stat(key) {
        Ok(object) if object.attributes.kind != Kind::Directory => {
            let into = get.dest.is_dir() || get.dest.as_os_str().as_bytes().ends_with(b"/");
            let name = key.rsplit(|&b| b == b'/').next().unwrap_or(key);
            let path = if into { get.dest.join(OsStr::from_bytes(name)) } else { get.dest.clone() };
            return Ok(vec![Wanted { key: key.to_vec(), object, path, named: true }]);
        }
        Ok(_) | Err(terrace::Error::NotFound { .. } | terrace::Error::BadKey { .. }) => {}
        Err(e) => return Err(e.into()),
    }
    if get.range.is_some() || get.dest.as_os_str() == "-" {
        bail!("{:?} is no object's key, which --range and - need; `terrace ls` lists those that exist", get.source);
    }
    let prefix = key.strip_suffix(b"/").unwrap_or(key);
    let (mut found, mut any) = (Vec::new(), false);
    each(store, prefix, |key, object| {
        let rest = key.strip_prefix(prefix).unwrap_or(key);
        let below = Path::new(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest)));
        any = true;
        if get.filter.passes(below) {
            let path = get.dest.join(below);
            found.push(Wanted { key: key.to_vec(), object: object.clone(), path, named: false });
        }
        Ok(())
    })?;
    if !any {
        bail!("nothing is stored at or below {:?}; `terrace ls` lists what is", get.source);
    }
    // Files first, by several threads: none is to follow a link that another object writes. Directories last, children before parents: later
    // writes into a directory would change its time, and its mode may forbid them.
    found.sort_by(|a, b| match (a.object.attributes.kind, b.object.attributes.kind) {
        (Kind::Directory, Kind::Directory) => b.key.cmp(&a.key),
        (a, b) => place_in_order(a).cmp(&place_in_order(b)),
    });
    if !get.dry_run {
        // Create it here, so that a failure is reported only once.
        fs::create_dir_all(&get.dest).with_context(|| format!("making {}", path_name(&get.dest)))?;
    }
    Ok(found)
}

/// Returns when objects of a kind are written.
fn place_in_order(kind: Kind) -> u8 {
    match kind {
        Kind::File => 0,
        Kind::Symlink => 1,
        Kind::Directory => 2,
    }
}

/// Creates the directories with access for this user only, until they are filled and get their own modes.
fn make_private(wanted: &[Wanted], folder: &OutFolder) -> Result<()> {
    // Parents come last in the order, so iterate backwards.
    let directories = wanted.iter().rev().filter(|w| !w.named && w.object.attributes.kind == Kind::Directory);
    // Those behind a link are reported when they are handled.
    for Wanted { path, .. } in directories.filter(|w| folder.find_link(&w.path, true).is_none()) {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("making {}", path_name(parent)))?;
        }
        // An error is ignored here: it is reported when the directory itself is handled.
        let _ = DirBuilder::new().mode(0o700).create(path);
    }
    Ok(())
}
