//! The ten requirements, the fields that each one sets, and their conflicts.

use std::fmt;
use std::num::NonZeroU8;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Ack, Field};
use terrace_cost::NotUnderstood;

/// A property that the user wants to optimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// Reads start soon: one replica raw, on the fastest tier.
    MinReadLatency,
    /// Reads stream fast: replicas on distinct tiers.
    MaxReadBandwidth,
    /// Reads outlive failures.
    MaxReadAvailability,
    /// Writes outlive failures: any target that is up will do.
    MaxWriteAvailability,
    /// Acknowledged data is not lost.
    MaxDurability,
    /// Targets are equally busy.
    MaxLoadBalance,
    /// Few joules.
    MinEnergy,
    /// Writes return soon.
    MinWriteLatency,
    /// Writes stream fast.
    MaxWriteBandwidth,
    /// Few bytes stored.
    MinStorage,
}

/// A bound of the range of replica counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Min,
    Max,
}

/// A requirement's row of Table III; None stands for the table's dash.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub name: &'static str,
    pub replicas: Option<Count>,
    pub ack: Option<Ack>,
    pub weights: Option<[f64; 3]>,
}

const fn row(name: &'static str, replicas: Option<Count>, ack: Option<Ack>, weights: Option<[f64; 3]>) -> Row {
    Row { name, replicas, ack, weights }
}

impl Requirement {
    /// Every requirement.
    pub const ALL: [Requirement; 10] = {
        use Requirement::*;
        [
            MinReadLatency,
            MaxReadBandwidth,
            MaxReadAvailability,
            MaxWriteAvailability,
            MaxDurability,
            MaxLoadBalance,
            MinEnergy,
            MinWriteLatency,
            MaxWriteBandwidth,
            MinStorage,
        ]
    };

    pub(super) const fn row(self) -> Row {
        use Count::{Max, Min};
        match self {
            Self::MinReadLatency => row("min_read_latency", Some(Max), None, Some([0.0, 1.0, 0.0])),
            Self::MaxReadBandwidth => row("max_read_bandwidth", None, None, Some([0.0, 0.5, 0.5])),
            Self::MaxReadAvailability => row("max_read_availability", Some(Max), None, None),
            Self::MaxWriteAvailability => row("max_write_availability", None, Some(Ack::Placed), None),
            Self::MaxDurability => row("max_durability", Some(Max), Some(Ack::Durable), None),
            Self::MaxLoadBalance => row("max_load_balance", None, None, Some([1.0 / 3.0; 3])),
            Self::MinEnergy => row("min_energy", Some(Min), None, Some([0.0, 0.0, 1.0])),
            Self::MinWriteLatency => row("min_write_latency", None, Some(Ack::Placed), Some([1.0, 0.0, 0.0])),
            Self::MaxWriteBandwidth => row("max_write_bandwidth", None, Some(Ack::Placed), Some([0.5, 0.0, 0.5])),
            Self::MinStorage => row("min_storage", Some(Min), None, Some([0.0, 0.0, 1.0])),
        }
    }

    /// Returns whether another requirement decides all that this one sets.
    pub(super) fn is_decided_by(self, other: Requirement) -> bool {
        let (own, other) = (self.row(), other.row());
        own.replicas.is_none_or(|_| other.replicas.is_some())
            && own.ack.is_none_or(|_| other.ack.is_some())
            && own.weights.is_none_or(|_| other.weights.is_some())
    }

    /// Returns the field that two requirements serve together if they complement each other (HReplica IV-B.2).
    pub fn complement(self, other: Requirement) -> Option<Field> {
        use Requirement::*;
        let of = |a, b| match (a, b) {
            (MaxWriteAvailability, MaxLoadBalance) => Some(Field::Placement),
            (MinEnergy, MinStorage) => Some(Field::Weights),
            (MaxDurability, MaxReadAvailability) => Some(Field::Replicas),
            _ => None,
        };
        of(self, other).or_else(|| of(other, self))
    }

    /// Returns the field over which two requirements conflict, if they do. `min_read_latency` and `min_storage` do not
    /// conflict: replica 0 has its own weights.
    pub fn conflict(self, other: Requirement) -> Option<Field> {
        use Requirement::*;
        let of = |a, b| match (a, b) {
            (MinWriteLatency | MaxWriteBandwidth | MaxWriteAvailability, MaxDurability) => Some(Field::Ack),
            (MinStorage, MinReadLatency) => None,
            (MinStorage | MinEnergy, MinReadLatency | MaxDurability | MaxReadAvailability) => Some(Field::Replicas),
            (MinStorage, MaxLoadBalance) => Some(Field::Placement),
            _ => None,
        };
        of(self, other).or_else(|| of(other, self))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

/// The value of a requirement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// The requirement is off, and overrides the levels below.
    Off,
    /// The requirement is on.
    #[default]
    On,
    /// The requirement is on, with this number of replicas.
    Number(u8),
}

/// A requirement and its value; written as `min_storage`, `min_storage=false` or `max_durability=4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The requirement.
    pub requirement: Requirement,
    /// The value.
    pub value: Value,
}

impl From<Requirement> for Asked {
    fn from(requirement: Requirement) -> Asked {
        Asked { requirement, value: Value::On }
    }
}

impl Asked {
    /// Reads requirements that are separated by commas, such as `min_storage,max_durability=4`.
    ///
    /// # Errors
    /// If one of them is not understood.
    pub fn parse_all(text: &str) -> Result<Vec<Asked>, NotUnderstood> {
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::parse).collect()
    }

    /// Returns the number of replicas that it names.
    pub fn replicas(self) -> Option<u8> {
        match self.value {
            Value::Number(replicas) => Some(replicas),
            Value::On | Value::Off => None,
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Value::On => write!(f, "{}", self.requirement),
            Value::Off => write!(f, "{}=false", self.requirement),
            Value::Number(replicas) => write!(f, "{}={replicas}", self.requirement),
        }
    }
}

impl FromStr for Asked {
    type Err = NotUnderstood;

    fn from_str(text: &str) -> Result<Asked, NotUnderstood> {
        let (name, value) = text.split_once('=').unwrap_or((text, "true"));
        let name = name.trim();
        let Some(requirement) = Requirement::ALL.into_iter().find(|requirement| requirement.row().name == name) else {
            let names = Requirement::ALL.map(|requirement| requirement.row().name).join(", ");
            return Err(NotUnderstood::new(name, "requirement", format!("one of {names}")));
        };
        let value = match value.trim() {
            "true" => Value::On,
            "false" => Value::Off,
            // Not 0, which could mean `false` as well as no replicas.
            number => Value::Number(number.parse::<NonZeroU8>().map(NonZeroU8::get).map_err(|_| {
                let write = format!("\"{name}=true\", \"{name}=false\" or a number of replicas as in \"{name}=4\"");
                NotUnderstood::new(number, "value", write)
            })?),
        };
        Ok(Asked { requirement, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for requirement in Requirement::ALL {
            assert_eq!(requirement.to_string().parse(), Ok(Asked::from(requirement)));
            assert_eq!(format!("{requirement} = 4").parse(), Ok(Asked { requirement, value: Value::Number(4) }));
            assert_eq!(format!("{requirement}=false").parse(), Ok(Asked { requirement, value: Value::Off }));
            for value in [Value::On, Value::Off, Value::Number(4)] {
                let asked = Asked { requirement, value };
                assert_eq!(asked.to_string().parse(), Ok(asked));
            }
        }
        let wrong = |text: &str| text.parse::<Asked>().expect_err(text).to_string();
        assert!(wrong("fast").contains("min_energy"));
        for value in ["few", "0", "256"] {
            assert!(wrong(&format!("min_storage={value}")).contains("min_storage=4"));
        }
    }

    #[test]
    fn conflicts_are_those_of_the_design_and_symmetric() {
        let count = |field| {
            let pairs = Requirement::ALL.iter().flat_map(|a| Requirement::ALL.iter().map(move |b| (a, b)));
            pairs.filter(|(a, b)| a.conflict(**b) == Some(field)).count()
        };
        assert_eq!((count(Field::Ack), count(Field::Replicas), count(Field::Placement)), (6, 10, 2));
        assert_eq!(Requirement::MinReadLatency.conflict(Requirement::MinStorage), None);
        assert_eq!(Requirement::MinEnergy.conflict(Requirement::MinReadLatency), Some(Field::Replicas));
    }
}
