//! Checked declarations, and the check that a store can hold what they declare.

use std::fmt::Display;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use terrace::config::Rule;
use terrace::{Config, Encoding};
use terrace_codec::{ALL_ENCODINGS, RARE_ENCODINGS};
use terrace_views::language::ast::{At, Consistency, File, ReplicaLine, Section};
use terrace_views::language::{self, Parsed};
use terrace_views::model::{Leaf, Model, Replica};
use terrace_views::{Diagnostic, Diagnostics, Sources};

use crate::{Error, Result, keys};

/// An asynchronous replica without a declared bound is updated within this time.
const DEFAULT_FOLLOW_BOUND: Duration = Duration::from_secs(2);

/// A checked declaration.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The declaration's text, with all included files merged.
    pub text: String,
    /// The model that the text describes.
    pub model: Model,
}

/// When a write reaches a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateTime {
    /// In the same commit as the write.
    Now,
    /// Within this time after the write.
    Within(Duration),
    /// When the view that was written through is closed.
    OnClose,
}

/// Parses a declaration and all files that it includes; `load` receives the name of an included file and returns its
/// text. The diagnostics hold all errors and warnings. If there is an error, no declaration is returned.
pub fn read_declaration(
    name: &str,
    text: String,
    load: &mut dyn FnMut(&str) -> io::Result<String>,
) -> (Option<Declared>, Sources, Diagnostics) {
    let mut diagnostics = Diagnostics::default();
    let (file, sources) = language::read(name, text, load, &mut diagnostics);
    check_codecs(&file, &mut diagnostics);
    let declared = Declared::of(file, &mut diagnostics);
    (declared, sources, diagnostics)
}

/// Reports unknown codecs.
fn check_codecs(file: &File, diagnostics: &mut Diagnostics) {
    let mut known: Vec<String> = ALL_ENCODINGS.iter().chain(RARE_ENCODINGS).map(Encoding::to_string).collect();
    // Suggest the names without a level, too.
    let without = |name: &String| name.rsplit_once('-').map(|(head, _)| head.to_owned());
    known.extend(known.iter().filter_map(without).filter(|name| name.parse::<Encoding>().is_ok()).collect::<Vec<_>>());
    for At { what, .. } in &file.sections {
        let Section::Replica(replica) = what else { continue };
        for At { what, span } in &replica.lines {
            let ReplicaLine::Codec(name) = what else { continue };
            if name.parse::<Encoding>().is_err() {
                let error = Diagnostic::error(*span, format!("there is no codec `{name}`"));
                let help = match language::nearest(name, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`? docs/codecs.md names all"),
                    None => "write it as zstd, lz4 or shuffle4+zstd-1; docs/codecs.md names all".to_owned(),
                };
                diagnostics.push(error.help(help));
            }
        }
    }
}

impl Declared {
    /// Returns whether both declare the same variables. Views and replicas may differ.
    pub fn is_of_same_dataset(&self, other: &Declared) -> bool {
        declares_same_variables(&self.model, &other.model)
    }

    fn of(file: File, diagnostics: &mut Diagnostics) -> Option<Declared> {
        let model = Model::of(&file, diagnostics);
        let text = language::print(&Parsed { file, trivia: Vec::new() });
        (!diagnostics.failed()).then_some(Declared { text, model })
    }

    /// Parses a declaration that includes no other files.
    ///
    /// # Errors
    /// [`Error::Declaration`] with all diagnostics if the text has errors.
    pub fn parse(text: &str) -> Result<Declared> {
        let mut none = |_: &str| Err(io::Error::other("a declaration in a store includes no files"));
        let mut diagnostics = Diagnostics::default();
        // Do not check codecs: a stored dataset whose codec only a later version knows must remain readable.
        let (file, _) = language::read("declaration", text.to_owned(), &mut none, &mut diagnostics);
        Declared::of(file, &mut diagnostics).ok_or(Error::Declaration(diagnostics))
    }

    /// Returns when a write reaches each replica. A replica that the synchronous ones cannot rebuild is updated with
    /// the write, whatever it declares: until its update, no other replica would have its bytes.
    pub(crate) fn update_times(&self) -> Vec<UpdateTime> {
        let replicas = &self.model.replicas;
        let is_sync = |replica: &Replica| replica.consistency == Consistency::Sync;
        let mut now: Vec<usize> = (0..replicas.len()).filter(|i| replicas.get(*i).is_some_and(is_sync)).collect();
        for (number, replica) in replicas.iter().enumerate() {
            if !is_sync(replica) && !self.model.made_of(replica, &now) {
                now.push(number);
            }
        }
        let when = |(number, replica): (usize, &Replica)| match replica.consistency {
            _ if now.contains(&number) => UpdateTime::Now,
            Consistency::Async(bound) => UpdateTime::Within(bound.map_or(DEFAULT_FOLLOW_BOUND, Duration::from_millis)),
            Consistency::Sync | Consistency::OnClose => UpdateTime::OnClose,
        };
        replicas.iter().enumerate().map(when).collect()
    }

    /// Checks that a store with this configuration can hold the replicas.
    pub(crate) fn check_store_fit(&self, config: &Config) -> Result<()> {
        let refused = |reason: String| Err(Error::Refused(reason));
        let replicas = &self.model.replicas;
        if replicas.is_empty() {
            return refused("the declaration has no replica; add one, such as replica main complete {}".to_owned());
        }
        for (number, replica) in replicas.iter().enumerate() {
            let name = &replica.name;
            keys::check_name(keys::file_name(replica))?;
            let same = |other: &Replica| keys::file_name(other) == keys::file_name(replica);
            if replicas.iter().take(number).any(same) {
                return refused(format!("two replicas have the file {:?}; give one another", keys::file_name(replica)));
            }
            for tier in &replica.tiers {
                if config.tiers.iter().all(|known| known.name != *tier) {
                    let known: Vec<&str> = config.tiers.iter().map(|known| known.name.as_str()).collect();
                    return refused(format!(
                        "the replica {name} is to be on the tier {tier:?}, which the store has not; it has {}",
                        known.join(", ")
                    ));
                }
            }
            if let Some(codec) = replica.codec.as_deref().filter(|codec| codec.parse::<Encoding>().is_err()) {
                return refused(format!(
                    "the replica {name} has the codec {codec:?}, which there is not; see docs/codecs.md"
                ));
            }
            let lasting: Vec<usize> = (0..replicas.len())
                .filter(|i| *i != number && replicas.get(*i).is_some_and(|other| !is_volatile(other, config)))
                .collect();
            if is_volatile(replica, config) && !self.model.made_of(replica, &lasting) {
                return refused(format!(
                    "the replica {name} is on tiers that a reboot empties, and stores what no other does; add a tier that outlives it"
                ));
            }
        }
        Ok(())
    }

    /// Returns the store's rules for the replicas that declare tiers, a codec or requirements.
    ///
    /// # Errors
    /// [`Error::Refused`] if a replica names a requirement or a codec that does not exist.
    pub(crate) fn store_rules(&self, dataset: &str, config: &Config) -> Result<Vec<Rule>> {
        let says = |replica: &&Replica| {
            !replica.tiers.is_empty() || replica.codec.is_some() || !replica.requirements.is_empty()
        };
        let rule = |replica: &Replica| {
            Ok(Rule {
                prefix: keys::replica_key(dataset, replica),
                requirements: replica.requirements.iter().map(|name| parse(replica, name)).collect::<Result<_>>()?,
                replicas: None,
                ack: None,
                weights: None,
                budget: None,
                encoding: replica.codec.as_deref().map(|name| parse(replica, name)).transpose()?,
                max_latency: None,
                volatile: is_volatile(replica, config),
                tiers: (!replica.tiers.is_empty()).then(|| replica.tiers.clone()),
                layout: None,
            })
        };
        self.model.replicas.iter().filter(says).map(rule).collect()
    }
}

/// Reads a word of a replica's declaration.
fn parse<T: FromStr<Err: Display>>(replica: &Replica, word: &str) -> Result<T> {
    word.parse().map_err(|wrong| Error::Refused(format!("the replica {}: {wrong}", replica.name)))
}

/// Returns whether a reboot empties all tiers of the replica.
fn is_volatile(replica: &Replica, config: &Config) -> bool {
    let lasts = |name: &String| config.tiers.iter().any(|tier| tier.name == *name && tier.persistent);
    !replica.tiers.is_empty() && !replica.tiers.iter().any(lasts)
}

/// Returns whether two declarations describe the same dataset, that is, declare the same variables with the
/// same fill values.
pub(crate) fn declares_same_variables(a: &Model, b: &Model) -> bool {
    let leaves = |model: &Model| -> Vec<_> {
        let leaf = |leaf: &Leaf| (leaf.path.clone(), leaf.primitive, leaf.lengths.clone(), leaf.fill.clone());
        model.dataset.leaves.iter().map(leaf).collect()
    };
    leaves(a) == leaves(b)
}
