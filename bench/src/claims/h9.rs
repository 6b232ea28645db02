//! Claim H9 (HReplica IV-B): 1 to 5 replicas of a piece, 3 by default, settable at each level.

use anyhow::Result;
use terrace::{Ack, Config, PutOptions, Store};

use crate::place::{Place, random_bytes};
use crate::row::{Better, Row};

/// The levels at which a number of replicas can be requested.
const POLICY_LEVELS: [&str; 3] = ["system", "application", "operation"];
/// The largest number of replicas that the paper allows.
const MAX_REPLICAS: u8 = 5;

pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let (mut met, mut stored) = (0, Vec::new());
    for (number, level) in POLICY_LEVELS.iter().enumerate() {
        for replicas in 1..=MAX_REPLICAS {
            let have = put(&place, &format!("{level}-{replicas}"), number, Some(replicas))?;
            met += usize::from(have == usize::from(replicas));
            stored.push(have.to_string());
        }
    }
    let default = put(&place, "default", 0, None)?;
    let asked = POLICY_LEVELS.len() * usize::from(MAX_REPLICAS);
    Ok(vec![
        Row::new("H9", "replicas of a piece where nothing is said", default as f64, "replicas")
            .beside(3.0, Better::Higher)
            .goal(3.0, Better::Higher),
        Row::new("H9", "of 1 to 5 replicas, asked for at each of three levels, had", met as f64, "cases")
            .beside(asked as f64, Better::Higher)
            .goal(asked as f64, Better::Higher)
            .details(format!("replicas found, by system, application, operation: {}", stored.join(" "))),
    ])
}

/// Puts an object with the number of replicas requested at a level. Returns how many replicas each of its extents has.
fn put(place: &Place, name: &str, level: usize, replicas: Option<u8>) -> Result<usize> {
    let paths: Vec<String> =
        (0..MAX_REPLICAS).map(|i| format!("'{}'", place.ram().join(format!("{name}-{i}")).display())).collect();
    let asked = |at: usize, text: &dyn Fn(u8) -> String| replicas.filter(|_| at == level).map(text).unwrap_or_default();
    let text = [
        asked(0, &|n| format!("[store]\nreplicas = {{ default = {n} }}\n")),
        asked(1, &|n| format!("[[rule]]\nprefix = ''\nreplicas = {n}\n")),
        format!("[[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = [{}]\n", paths.join(", ")),
    ];
    let store = Store::init(&place.disk().join(name), &Config::parse(&text.concat(), "bench")?)?;
    let options =
        PutOptions { replicas: replicas.filter(|_| level == 2), ack: Some(Ack::Replicated), ..PutOptions::default() };
    store.put_bytes(b"object", &random_bytes(3 << 20, 9), &options)?;
    let extents = store.locate(b"object")?.extents;
    Ok(extents.iter().map(|extent| extent.replicas.len()).min().unwrap_or(0))
}
