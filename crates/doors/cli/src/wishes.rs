//! The user's requirements, as flags: `--require R,...` and one flag for each requirement.

use std::str::FromStr;

use anyhow::bail;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use terrace::config::Time;
use terrace::{Asked, Budget, Config, PutOptions, Requirement, Weights};

#[derive(Args)]
#[command(next_help_heading = "What matters")]
pub struct Wishes {
    /// Requirements, most important first, such as max_durability=4,min_storage: a number is that of the replicas. Each is also a flag.
    #[arg(long, value_name = "R,...", value_delimiter = ',')]
    require: Vec<Asked>,
    /// Weights of encoding time, decoding time and bytes stored: three numbers with commas between, or asynchronous (only
    /// encoding counts), archival (only bytes stored count) or read-after-write (0.3,0.3,0.4).
    #[arg(long, value_name = "W")]
    pub weights: Option<Weights>,
    /// Store at most this many bytes for each byte written, such as 3x, and as many replicas as fit into that.
    #[arg(long, value_name = "B")]
    pub budget: Option<Budget>,
    /// Limits: budget=3x, max_latency=5ms for the first replica's tier, tiers=NAME+NAME to use only these. `put` says which it cannot keep.
    #[arg(long, value_name = "C,...", value_delimiter = ',')]
    constraint: Vec<Constraint>,
    #[command(flatten)]
    flags: Flags,
}

/// One thing that has to hold.
#[derive(Clone)]
enum Constraint {
    Budget(Budget),
    MaxLatency(Time),
    Tiers(Vec<String>),
}

impl FromStr for Constraint {
    type Err = String;

    fn from_str(text: &str) -> Result<Constraint, String> {
        match text.split_once('=') {
            Some(("budget", value)) => value.parse().map(Constraint::Budget).map_err(|e| format!("{e}")),
            Some(("max_latency", value)) => value.parse().map(Constraint::MaxLatency),
            Some(("tiers", names)) => Ok(Constraint::Tiers(names.split('+').map(str::to_owned).collect())),
            _ => Err("write budget=3x, max_latency=5ms or tiers=NAME+NAME".into()),
        }
    }
}

impl Wishes {
    /// Returns the options with which an object is written.
    pub fn options(&self) -> PutOptions {
        let (requirements, weights, budget) = (self.requirements(), self.weights, self.budget);
        let mut options = PutOptions { requirements, weights, budget, ..PutOptions::default() };
        for constraint in &self.constraint {
            match constraint {
                Constraint::Budget(budget) => options.budget = Some(*budget),
                Constraint::MaxLatency(most) => options.max_latency = Some(most.0.as_secs_f64()),
                Constraint::Tiers(names) => options.tiers = Some(names.clone()),
            }
        }
        options
    }

    /// Checks that the requested tiers exist.
    pub fn check(&self, config: &Config) -> anyhow::Result<()> {
        let named = self.constraint.iter().filter_map(|constraint| match constraint {
            Constraint::Tiers(names) => Some(names),
            _ => None,
        });
        for name in named.flatten() {
            let tiers: Vec<&str> = config.tiers.iter().map(|tier| tier.name.as_str()).collect();
            if !tiers.contains(&name.as_str()) {
                bail!("--constraint tiers: there is no tier {name:?}; there are {}", tiers.join(", "));
            }
        }
        Ok(())
    }

    /// Returns all requirements, those of `--require` first.
    fn requirements(&self) -> Vec<Asked> {
        self.require.iter().chain(&self.flags.0).copied().collect()
    }
}

/// The requirements that were given by their own flags, in the order of the command line.
struct Flags(Vec<Asked>);

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        Requirement::ALL.into_iter().fold(command, |command, requirement| {
            let name = requirement.to_string();
            let flag = Arg::new(name.clone()).long(name.replace('_', "-")).value_name("REPLICAS").num_args(0..=1);
            let flag = flag.require_equals(true).default_missing_value("true");
            let help = format!("{} [{VALUE_HELP}]", describe(requirement));
            command.arg(flag.help(help).hide_short_help(true))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The help of the value that the flag of each requirement may have.
const VALUE_HELP: &str = "REPLICAS: make this many; false: ignore it where a rule or the store says it";

/// Returns the help of a requirement's flag.
fn describe(requirement: Requirement) -> &'static str {
    match requirement {
        Requirement::MinReadLatency => {
            "Read fast: as many replicas as the configuration allows, the first one raw on the fastest tier"
        }
        Requirement::MaxReadBandwidth => "Read in parallel: replicas on distinct tiers",
        Requirement::MaxReadAvailability => "Stay readable: as many replicas as the configuration allows",
        Requirement::MaxWriteAvailability => "Return at once, and write to any available target",
        Requirement::MaxDurability => {
            "Return when all replicas are durable, as many as the configuration allows, on persistent targets"
        }
        Requirement::MaxLoadBalance => "Spread replicas by the load of targets",
        Requirement::MinEnergy => "Use little energy: few replicas, chosen by joules instead of seconds",
        Requirement::MinWriteLatency => "Return at once, and encode only where that is faster",
        Requirement::MaxWriteBandwidth => "Return at once, and encode where that raises write throughput",
        Requirement::MinStorage => "Use little space: few replicas, encoded as densely as possible",
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = Vec::new();
        for name in Requirement::ALL.map(|requirement| requirement.to_string()) {
            if let Some(value) = matches.get_one::<String>(&name) {
                let asked: Result<Asked, _> = format!("{name}={value}").parse();
                let asked = asked.map_err(|e| Error::raw(ErrorKind::ValueValidation, format!("{e}\n")))?;
                given.push((matches.index_of(&name), asked));
            }
        }
        given.sort_by_key(|(index, _)| *index);
        Ok(Flags(given.into_iter().map(|(_, asked)| asked).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
