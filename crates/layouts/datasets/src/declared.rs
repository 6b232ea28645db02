//! Declarations, and whether a store can hold what they declare.

use std::io;
use std::time::Duration;

use terrace::config::Rule;
use terrace::{Config, Encoding};
use terrace_codec::{ALL, RARE};
use terrace_views::language::ast::{At, Consistency, File, ReplicaLine, Section};
use terrace_views::language::{self, Parsed};
use terrace_views::model::{Model, Replica};
use terrace_views::{Diagnostic, Diagnostics, Sources};

use crate::change::same;
use crate::{Error, Result, keys};

/// A replica without a bound follows within this time.
const USUAL_BOUND: Duration = Duration::from_secs(2);

/// A declaration that was checked.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Its text, in one file.
    pub text: String,
    /// What it means.
    pub model: Model,
}

/// When a write reaches a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// With the write.
    Now,
    /// Within so long.
    Within(Duration),
    /// When the view is closed that was written through.
    OnClose,
}

/// Reads a declaration and all that it includes; `load` gets the name of an included file. All that is to be told of it is in
/// the diagnostics; where that is an error, there is no declaration.
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

/// Says which codecs there are not.
fn check_codecs(file: &File, diagnostics: &mut Diagnostics) {
    let mut known: Vec<String> = ALL.iter().chain(RARE).map(Encoding::to_string).collect();
    // Without their levels, too.
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
    /// Whether both declare the same variables, in whatever views and replicas.
    pub fn is_of_same_dataset(&self, other: &Declared) -> bool {
        same(&self.model, &other.model)
    }

    fn of(file: File, diagnostics: &mut Diagnostics) -> Option<Declared> {
        let model = Model::of(&file, diagnostics);
        let text = language::print(&Parsed { file, trivia: Vec::new() });
        (!diagnostics.failed()).then_some(Declared { text, model })
    }

    /// A declaration of one text.
    ///
    /// # Errors
    /// [`Error::Declaration`] with all that is wrong with it.
    pub fn parse(text: &str) -> Result<Declared> {
        let mut none = |_: &str| Err(io::Error::other("a declaration in a store includes no files"));
        let mut diagnostics = Diagnostics::default();
        // Codecs are not looked at: one that only a later version knows makes nothing unreadable that is stored already.
        let (file, _) = language::read("declaration", text.to_owned(), &mut none, &mut diagnostics);
        Declared::of(file, &mut diagnostics).ok_or(Error::Declaration(diagnostics))
    }

    /// When a write reaches each replica. One that the others do not make up gets it at once, whatever it says: its bytes would be
    /// nowhere until then.
    pub(crate) fn when(&self) -> Vec<When> {
        let replicas = &self.model.replicas;
        let is_sync = |replica: &Replica| replica.consistency == Consistency::Sync;
        let mut now: Vec<usize> = (0..replicas.len()).filter(|i| replicas.get(*i).is_some_and(is_sync)).collect();
        for (number, replica) in replicas.iter().enumerate() {
            if !is_sync(replica) && !self.model.made_of(replica, &now) {
                now.push(number);
            }
        }
        let when = |(number, replica): (usize, &Replica)| match replica.consistency {
            _ if now.contains(&number) => When::Now,
            Consistency::Async(bound) => When::Within(bound.map_or(USUAL_BOUND, Duration::from_millis)),
            Consistency::Sync | Consistency::OnClose => When::OnClose,
        };
        replicas.iter().enumerate().map(when).collect()
    }

    /// Checks that a store with this configuration can hold the replicas.
    pub(crate) fn fits(&self, config: &Config) -> Result<()> {
        let refused = |reason: String| Err(Error::Refused(reason));
        let replicas = &self.model.replicas;
        if replicas.is_empty() {
            return refused("the declaration has no replica; add one, such as replica main complete {}".to_owned());
        }
        for (number, replica) in replicas.iter().enumerate() {
            let name = &replica.name;
            keys::check(keys::file_name(replica))?;
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

    /// The store's rules for the replicas that say more than nothing.
    pub(crate) fn rules(&self, dataset: &str, config: &Config) -> Vec<Rule> {
        let says = |replica: &&Replica| {
            !replica.tiers.is_empty() || replica.codec.is_some() || !replica.requirements.is_empty()
        };
        let rule = |replica: &Replica| Rule {
            prefix: keys::replica(dataset, replica),
            requirements: replica.requirements.clone(),
            replicas: None,
            ack: None,
            weights: None,
            budget: None,
            encoding: replica.codec.clone(),
            max_latency: None,
            volatile: is_volatile(replica, config),
            tiers: (!replica.tiers.is_empty()).then(|| replica.tiers.clone()),
            layout: None,
        };
        self.model.replicas.iter().filter(says).map(rule).collect()
    }
}

/// Whether a reboot takes the replica.
fn is_volatile(replica: &Replica, config: &Config) -> bool {
    let lasts = |name: &String| config.tiers.iter().any(|tier| tier.name == *name && tier.persistent);
    !replica.tiers.is_empty() && !replica.tiers.iter().any(lasts)
}
