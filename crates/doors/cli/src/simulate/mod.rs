//! `terrace simulate`: policies side by side on a described cluster, in virtual time.

mod description;
mod error;
mod plot;
mod policy;
mod sample;
mod show;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use terrace_plan::policy::Ack;
use terrace_simulate::{Even, Job, Kind, Knows, Outcome, Phase, Planner, simulate as run};

use crate::errors::read_text;
use crate::output::{Show, note};
use description::Description;

#[derive(Args)]
pub struct Simulate {
    /// A file that describes the cluster, the workload and the policies to compare.
    #[arg(value_name = "FILE")]
    pub description: PathBuf,
    /// Write a plot of time and space to this file, too.
    #[arg(long, value_name = "FILE.svg", value_parser = PathBufValueParser::new().try_map(picture))]
    pub plot: Option<PathBuf>,
}

fn picture(path: PathBuf) -> Result<PathBuf, &'static str> {
    let svg = path.extension().is_some_and(|extension| extension == "svg");
    svg.then_some(path).ok_or("pictures are SVG; give a name that ends in .svg")
}

/// The outcome of one policy.
struct Compared {
    name: String,
    phases: Vec<&'static str>,
    outcome: Outcome,
    /// The requirements of the policy that the outcome violates.
    notes: Vec<String>,
}

pub fn simulate(asked: &Simulate, show: Show) -> Result<bool> {
    let path = &asked.description;
    let description = Description::parse(&read_text(path)?).with_context(|| path.display().to_string())?;
    let compared = compare(&description, path).with_context(|| path.display().to_string())?;
    let tiers: Vec<&str> = description.tiers.iter().map(|tier| &*tier.name).collect();
    show.result(&show::json(&tiers, &compared), &show::table(&tiers, &compared))?;
    if let Some(picture) = &asked.plot {
        plot::plot(picture, &tiers, &compared)?;
        if !show.json && !show.quiet {
            note(&format!("the picture is in {}", picture.display()));
        }
    }
    Ok(true)
}

fn compare(description: &Description, path: &Path) -> Result<Vec<Compared>> {
    let cluster = description.cluster()?;
    let (bytes, blocks) = description.workload.blocks()?;
    let costs = match &description.data.files[..] {
        [] => vec![description.data.costs()?],
        files => sample::costs(files, path.parent().unwrap_or(Path::new("")))?,
    };
    let kinds: Vec<Kind> = costs.into_iter().map(|costs| Kind { bytes, costs }).collect();
    let wanted = &description.workload;
    let work =
        Even { steps: wanted.steps, objects: wanted.objects, blocks, kinds: kinds.iter().map(|k| k.bytes).collect() };
    description.check_count(blocks)?;
    let snapshot = cluster.snapshot()?;
    let one = |asked: &policy::Asked| {
        let (policy, mut notes) = asked.policy(&snapshot)?;
        let only = asked.encoding(&kinds)?;
        let phases = phases(wanted, policy.ack);
        let job =
            Job { cluster: &cluster, work: &work, phases: &phases, under_way: wanted.under_way, knows: Knows::Begun };
        let mut planner = Planner::new(policy, wanted.expected_reads, kinds.clone(), only);
        let outcome = run(&job, &mut planner).with_context(|| format!("policy {:?}", asked.name))?;
        notes.extend(asked.unheld(&policy, planner.noted()));
        let phases = phases.iter().map(|phase| if matches!(phase, Phase::Read(_)) { "read" } else { "write" });
        Ok(Compared { name: asked.name.clone(), phases: phases.collect(), outcome, notes })
    };
    description.policies.iter().map(one).collect()
}

fn phases(wanted: &description::Workload, ack: Ack) -> Vec<Phase> {
    let mut phases = vec![Phase::Write { ack, computing: wanted.computing.0.as_secs_f64() }];
    phases.extend((wanted.reads > 0).then_some(Phase::Read(wanted.reads)));
    phases
}
