//! Requirements for a file, and the places of its bytes, as user attributes.
//!
//! An attribute that asks is a setting of the options that the object keeps, so it applies to each later write of the file. Those of a
//! directory apply to what is created in it.

use std::collections::BTreeMap;
use std::fmt::Write;

use terrace_catalog::{Attributes, Kind};
use terrace_format::key;
use terrace_plan::policy::Replicas;

use super::path::parent;
use super::{FileError, FileResult, Files, Shared};
use crate::report::{ExtentLocation, ReplicaState};
use crate::{Asked, PutOptions};

/// The attribute that says where a file's bytes are.
pub const LOCATION_NAME: &str = "terrace.location";
/// The longest text of this attribute. The kernel takes no value above 64 KiB.
const MAX_LOCATION_BYTES: usize = 60 << 10;

/// A user attribute that asks for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskingAttribute {
    /// The requirements, most important first.
    Requirements,
    /// The number of replicas.
    Replicas,
    /// The acknowledgement that each write waits for.
    Ack,
    /// The limit of the bytes stored.
    Budget,
}

impl AskingAttribute {
    const ATTRIBUTE_NAMES: [(&str, AskingAttribute); 4] = [
        ("terrace.require", AskingAttribute::Requirements),
        ("terrace.replicas", AskingAttribute::Replicas),
        ("terrace.ack", AskingAttribute::Ack),
        ("terrace.budget", AskingAttribute::Budget),
    ];

    /// Returns the attribute of this name.
    pub fn named(name: &str) -> Option<AskingAttribute> {
        AskingAttribute::ATTRIBUTE_NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, attribute)| attribute)
    }

    /// Returns the names and values of those attributes by which these options are shown.
    pub fn pairs(options: &PutOptions) -> impl Iterator<Item = (String, String)> {
        let value = move |attribute: AskingAttribute| options.levels().find_map(|level| attribute.value(level));
        AskingAttribute::ATTRIBUTE_NAMES
            .into_iter()
            .filter_map(move |(name, attribute)| Some((name.to_owned(), value(attribute)?)))
    }

    /// Sets the attribute among those of an object, or removes it. Returns the value that it had.
    ///
    /// # Errors
    /// The reason why the value is not understood.
    pub fn change(
        self,
        user: &mut BTreeMap<String, String>,
        value: Option<&str>,
        range: Replicas,
    ) -> Result<Option<String>, String> {
        let mut options = PutOptions::kept_in(user)?;
        let was = options.levels().find_map(|level| self.value(level));
        match value {
            Some(value) => self.set(&mut options, value, range)?,
            None => self.clear(&mut options),
        }
        options.to_kept().map_err(|error| error.to_string())?.store_in(user);
        Ok(was)
    }

    fn value(self, level: &PutOptions) -> Option<String> {
        match self {
            AskingAttribute::Requirements => {
                let names: Vec<String> = level.requirements.iter().map(Asked::to_string).collect();
                (!names.is_empty()).then(|| names.join(","))
            }
            AskingAttribute::Replicas => level.replicas.map(|replicas| replicas.to_string()),
            AskingAttribute::Ack => level.ack.map(|ack| ack.to_string()),
            AskingAttribute::Budget => level.budget.map(|budget| budget.to_string()),
        }
    }

    fn set(self, options: &mut PutOptions, value: &str, Replicas { min, max, .. }: Replicas) -> Result<(), String> {
        match self {
            AskingAttribute::Requirements => {
                options.requirements = Asked::parse_all(value).map_err(|e| e.to_string())?
            }
            AskingAttribute::Replicas => {
                let replicas = value.trim().parse().ok().filter(|replicas| (min..=max).contains(replicas));
                let allowed = || format!("{value:?} is no number from {min} to {max}, the store's `replicas`");
                options.replicas = Some(replicas.ok_or_else(allowed)?);
            }
            AskingAttribute::Ack => options.ack = Some(value.parse().map_err(|e| format!("{e}"))?),
            AskingAttribute::Budget => options.budget = Some(value.parse().map_err(|e| format!("{e}"))?),
        }
        Ok(())
    }

    /// Removes the setting from all levels, so that none is left that was hidden by a higher one.
    fn clear(self, options: &mut PutOptions) {
        match self {
            AskingAttribute::Requirements => options.requirements.clear(),
            AskingAttribute::Replicas => options.replicas = None,
            AskingAttribute::Ack => options.ack = None,
            AskingAttribute::Budget => options.budget = None,
        }
        if let Some(below) = &mut options.below {
            self.clear(below);
        }
    }
}

impl Shared {
    /// Changes an attribute that asks for something, among those of the object at `path`. Returns the value that it had.
    pub(super) fn ask(
        &self,
        attribute: AskingAttribute,
        user: &mut BTreeMap<String, String>,
        value: Option<&str>,
        (path, name): (&[u8], &str),
    ) -> FileResult<Option<String>> {
        let range = self.store.engine.planning.replica_range();
        attribute.change(user, value, range).map_err(|reason| {
            let error = FileError::NotUnderstood { path: key::show(path), name: name.to_owned(), reason };
            // The caller gets only a number.
            tracing::warn!(%error, "an attribute was not set");
            error
        })
    }

    /// Records in a new entry's attributes what its directory asks for, and below that what these files were opened with. Returns both.
    pub(super) fn ask_as_directory(&self, path: &[u8], attributes: &mut Attributes) -> FileResult<PutOptions> {
        let folder = parent(path);
        let directory = if folder.is_empty() { None } else { self.object(folder)? };
        let own = self.store.engine.planning.kept.of(folder, directory.as_ref())?;
        let with = |application: PutOptions| match *own == PutOptions::default() {
            true => application,
            false => PutOptions::clone(&own).over(&application),
        };
        with(self.options.lasting()).to_kept()?.store_in(&mut attributes.user);
        Ok(with(self.options.clone()))
    }
}

impl Files {
    /// Returns the places of a file's bytes, a line for each range whose replicas are alike.
    pub(super) fn location(&self, path: &[u8]) -> FileResult<String> {
        let stat = self.stat(path)?;
        if stat.kind != Kind::File || stat.special.is_some() {
            return Err(FileError::NoAttribute { path: key::show(path), name: LOCATION_NAME.to_owned() });
        }
        Ok(describe_ranges(&self.shared.store.locate(path)?.extents))
    }
}

fn describe_ranges(extents: &[ExtentLocation]) -> String {
    let mut ranges: Vec<(u64, u64, String)> = Vec::new();
    for extent in extents {
        let (end, replicas) = (extent.offset + extent.length, describe_replicas(extent));
        match ranges.last_mut() {
            Some((_, last_end, alike)) if *last_end == extent.offset && *alike == replicas => *last_end = end,
            _ => ranges.push((extent.offset, end, replicas)),
        }
    }
    let mut text = String::new();
    for (count, (start, end, replicas)) in ranges.iter().enumerate() {
        if text.len() + replicas.len() > MAX_LOCATION_BYTES {
            // Writing to a string does not fail.
            let _ = writeln!(text, "and {} more ranges, which `terrace locate` shows", ranges.len() - count);
            break;
        }
        let _ = writeln!(text, "{start}-{end} {replicas}");
    }
    text
}

/// The replicas of an extent: tier, target and encoding of each.
fn describe_replicas(extent: &ExtentLocation) -> String {
    let each = extent.replicas.iter().map(|replica| {
        let state = match replica.state {
            ReplicaState::Present => replica.encoding.as_str(),
            ReplicaState::Owed => "pending",
        };
        format!("{} {} {state}", replica.tier, replica.target)
    });
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ReplicaLocation;

    fn extent(offset: u64, target: &str) -> ExtentLocation {
        let replica = ReplicaLocation {
            tier: "ram".into(),
            target: target.into(),
            node: None,
            encoding: "none".into(),
            state: ReplicaState::Present,
            stored: 10,
            file: None,
            position: None,
        };
        ExtentLocation { offset, length: 10, replicas: vec![replica] }
    }

    #[test]
    fn ranges_with_equal_replicas_are_joined_and_the_text_is_short() {
        let joined = describe_ranges(&[extent(0, "/a"), extent(10, "/a"), extent(30, "/a"), extent(40, "/b")]);
        assert_eq!(joined, "0-20 ram /a none\n30-40 ram /a none\n40-50 ram /b none\n");
        let many: Vec<ExtentLocation> = (0..10_000).map(|at| extent(at * 20, "/a")).collect();
        let text = describe_ranges(&many);
        assert!(text.len() < 64 << 10 && text.ends_with("more ranges, which `terrace locate` shows\n"));
    }

    #[test]
    fn removing_a_setting_shows_none_of_a_lower_level() {
        let range = Replicas::default();
        let below = PutOptions { replicas: Some(2), ..PutOptions::default() };
        let mut user = BTreeMap::new();
        let shown =
            |user: &BTreeMap<_, _>| AskingAttribute::pairs(&PutOptions::kept_in(user).unwrap()).collect::<Vec<_>>();
        PutOptions { replicas: Some(4), ..PutOptions::default() }.over(&below).to_kept().unwrap().store_in(&mut user);
        let attribute = AskingAttribute::Replicas;
        assert_eq!(attribute.change(&mut user, Some("3"), range), Ok(Some("4".to_owned())));
        assert_eq!(shown(&user), [("terrace.replicas".into(), "3".into())]);
        assert_eq!(attribute.change(&mut user, None, range), Ok(Some("3".to_owned())));
        assert!(shown(&user).is_empty());
        for (attribute, wrong) in [
            (AskingAttribute::Replicas, "0"),
            (AskingAttribute::Replicas, "many"),
            (AskingAttribute::Replicas, "6"),
            (AskingAttribute::Ack, "soon"),
            (AskingAttribute::Budget, "3"),
            (AskingAttribute::Requirements, "min_speed"),
        ] {
            assert!(attribute.change(&mut user, Some(wrong), range).is_err(), "{attribute:?} = {wrong}");
        }
    }
}
