//! Commands about the server.

use std::sync::atomic::Ordering;

use super::{Call, Done, NO_KEYS, Verb, all, reading};
use crate::clock::Moment;
use crate::number::parse_integer;
use crate::pattern::matches;
use crate::problem::{Problem, SYNTAX_ERROR, said};
use crate::resp::Resp;
use crate::server_facts::{REDIS_VERSION, ServerFacts};

pub const COMMAND_TABLE: &[Verb] = &[
    reading("ping", -1, NO_KEYS, ping),
    reading("echo", 2, NO_KEYS, |call| Ok(Resp::Bulk(call.word(1).to_vec()))),
    reading("time", 1, NO_KEYS, time),
    reading("info", -1, NO_KEYS, info),
    reading("config", -2, NO_KEYS, config),
    reading("command", -1, NO_KEYS, command),
    reading("save", 1, NO_KEYS, save),
    reading("shutdown", -1, NO_KEYS, |_| Err(said("ERR end the server by SIGTERM"))),
    reading("lastsave", 1, NO_KEYS, |call| Ok(Resp::Number(call.server.saved.load(Ordering::Relaxed) / 1000))),
    reading("select", 2, NO_KEYS, |call| call.database(call.word(1)).map(|_| Resp::OK_REPLY)),
    // Watched keys are forgotten with each transaction.
    reading("unwatch", 1, NO_KEYS, |_| Ok(Resp::OK_REPLY)),
    reading("cluster", -2, NO_KEYS, |_| Err(said("ERR This instance has cluster support disabled"))),
    reading("wait", 3, NO_KEYS, wait),
    reading("function", -2, NO_KEYS, function),
    reading("publish", 3, NO_KEYS, publish),
    reading("pubsub", -2, NO_KEYS, pubsub),
];

fn ping(call: &mut Call<'_, '_>) -> Done {
    match call.words.len() {
        1 => Ok(Resp::Status("PONG")),
        2 => Ok(Resp::Bulk(call.word(1).to_vec())),
        _ => Err(said("ERR wrong number of arguments for 'ping' command")),
    }
}

fn time(call: &mut Call<'_, '_>) -> Done {
    let micros = call.pass.now.nanos() / 1000;
    Ok(Resp::Array(vec![Resp::text(&(micros / 1_000_000).to_string()), Resp::text(&(micros % 1_000_000).to_string())]))
}

fn info(call: &mut Call<'_, '_>) -> Done {
    let asked: Vec<String> =
        call.words_from(1).iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
    let says_all = asked.iter().any(|word| word == "all" || word == "everything");
    let is_usual = says_all || asked.is_empty() || asked.iter().any(|word| word == "default");
    let wants = |name: &str| is_usual || asked.iter().any(|word| word == name);
    let facts = call.server;
    let uptime = (call.pass.now.millis() - facts.begun.millis()) / 1000;
    let mut text = String::new();
    let mut section = |name: &str, lines: &[(&str, String)]| {
        let gap = if text.is_empty() { "" } else { "\r\n" };
        text += &format!("{gap}# {name}\r\n");
        lines.iter().for_each(|(name, value)| text += &format!("{name}:{value}\r\n"));
    };
    if wants("server") {
        section(
            "Server",
            &[
                ("redis_version", REDIS_VERSION.to_owned()),
                ("terrace_version", env!("CARGO_PKG_VERSION").to_owned()),
                ("redis_mode", "standalone".to_owned()),
                ("os", "Linux".to_owned()),
                ("arch_bits", usize::BITS.to_string()),
                ("process_id", std::process::id().to_string()),
                ("tcp_port", facts.port.to_string()),
                ("uptime_in_seconds", uptime.to_string()),
            ],
        );
    }
    if wants("clients") {
        section(
            "Clients",
            &[
                ("connected_clients", facts.traffic.open_connections().to_string()),
                ("blocked_clients", facts.waiting.load(Ordering::Relaxed).to_string()),
                ("maxclients", facts.limits.connections.to_string()),
                ("maxmemory_clients", facts.memory.limit().to_string()),
                ("mem_clients_normal", facts.memory.held().to_string()),
            ],
        );
    }
    if wants("persistence") {
        section(
            "Persistence",
            &[
                ("loading", "0".to_owned()),
                ("rdb_bgsave_in_progress", "0".to_owned()),
                ("aof_enabled", "1".to_owned()),
                ("aof_rewrite_in_progress", "0".to_owned()),
            ],
        );
    }
    if wants("cluster") {
        section("Cluster", &[("cluster_enabled", "0".to_owned())]);
    }
    if wants("stats") {
        section(
            "Stats",
            &[
                ("total_connections_received", facts.traffic.accepted.get().to_string()),
                ("total_commands_processed", facts.commands.load(Ordering::Relaxed).to_string()),
                ("rejected_connections", facts.traffic.refused.get().to_string()),
                ("evicted_clients", facts.evicted.load(Ordering::Relaxed).to_string()),
                ("repeated_commits", facts.repeated.load(Ordering::Relaxed).to_string()),
                ("pubsub_channels", facts.channels.names().len().to_string()),
            ],
        );
    }
    if wants("replication") {
        section("Replication", &[("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]);
    }
    // The names are counted one by one, so a client must ask for it.
    if says_all || asked.iter().any(|word| word == "keyspace") {
        let mut lines = Vec::new();
        for db in 0..facts.databases() {
            let (count, expiring) = call.pass.census(db)?;
            if count > 0 {
                lines.push((format!("db{db}"), format!("keys={count},expires={expiring},avg_ttl=0")));
            }
        }
        let lines: Vec<(&str, String)> = lines.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        section("Keyspace", &lines);
    }
    Ok(Resp::Text(text))
}

fn config(call: &mut Call<'_, '_>) -> Done {
    if call.says(1, "get") && call.words.len() > 2 {
        let wanted = |name: &str| {
            let patterns = call.words_from(2);
            patterns.iter().any(|pattern| matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
        };
        let found = call.server.settings().into_iter().filter(|(name, _)| wanted(name));
        return Ok(Resp::Map(found.map(|(name, value)| (Resp::text(name), Resp::text(&value))).collect()));
    }
    if call.says(1, "set") && call.words.len() > 3 && call.words.len().is_multiple_of(2) {
        for pair in call.words_from(2).chunks_exact(2) {
            set_config(call, &pair[0], &pair[1])?;
        }
        return Ok(Resp::OK_REPLY);
    }
    if call.says(1, "resetstat") {
        let ServerFacts { traffic, commands, repeated, .. } = call.server;
        for counter in [traffic.accepted.inner(), traffic.refused.inner(), commands, repeated] {
            counter.store(0, Ordering::Relaxed);
        }
        return Ok(Resp::OK_REPLY);
    }
    Err(said("ERR unknown subcommand or wrong number of arguments for 'config'. Try CONFIG GET, SET or RESETSTAT."))
}

fn set_config(call: &Call<'_, '_>, name: &[u8], value: &[u8]) -> Result<(), Problem> {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let is_as_wanted = call.server.settings().iter().any(|(known, now)| *known == name && now.as_bytes() == value);
    let is_set = parse_integer(value).is_ok_and(|value| call.server.set(&name, value));
    match is_as_wanted || is_set {
        true => Ok(()),
        false => Err(format!(
            "ERR CONFIG SET failed (possibly related to argument '{name}') - it cannot be changed here; `terrace serve redis --help` \
             lists the options, and terrace.toml has the settings of the store"
        )
        .into()),
    }
}

fn command(call: &mut Call<'_, '_>) -> Done {
    if call.words.len() == 1 {
        return Ok(Resp::Array(all().map(describe).collect()));
    }
    if call.says(1, "count") {
        return Ok(Resp::count(all().count()));
    }
    if call.says(1, "docs") {
        let wanted = call.words_from(2);
        let is_wanted = |verb: &&Verb| {
            wanted.is_empty() || wanted.iter().any(|name| name.eq_ignore_ascii_case(verb.name.as_bytes()))
        };
        let docs = all().filter(is_wanted).map(|verb| {
            let summary = (Resp::text("arguments"), Resp::Array(Vec::new()));
            (Resp::text(verb.name), Resp::Map(vec![summary]))
        });
        return Ok(Resp::Map(docs.collect()));
    }
    if call.says(1, "info") {
        let found = call.words_from(2).iter().map(|name| super::find(name).map_or(Resp::NilArray, describe));
        return Ok(Resp::Array(found.collect()));
    }
    if call.says(1, "list") {
        return Ok(Resp::bulks(all().map(|verb| verb.name)));
    }
    if call.says(1, "getkeys") && call.words.len() > 2 {
        let words = call.words_from(2);
        let verb = super::find(&words[0]).filter(|verb| verb.takes(words.len()));
        let verb = verb.ok_or(said("ERR Invalid command specified"))?;
        let keys = super::keys_of(verb, words);
        return if keys.is_empty() { Err(said("ERR The command has no key arguments")) } else { Ok(Resp::bulks(keys)) };
    }
    Err(said(
        "ERR unknown subcommand or wrong number of arguments for 'command'. Try COMMAND COUNT, DOCS, INFO, LIST or GETKEYS.",
    ))
}

fn describe(verb: &Verb) -> Resp {
    let number = |number: i32| Resp::Number(number.into());
    let flags = vec![Resp::Status(if verb.writes { "write" } else { "readonly" })];
    let nothing = || Resp::Array(Vec::new());
    Resp::Array(vec![
        Resp::text(verb.name),
        number(verb.arity),
        Resp::Array(flags),
        number(verb.keys.first),
        number(verb.keys.last),
        number(verb.keys.step),
        nothing(),
        nothing(),
        nothing(),
        nothing(),
    ])
}

fn save(call: &mut Call<'_, '_>) -> Done {
    call.pass.sync()?;
    call.server.saved.store(Moment::now().millis(), Ordering::Relaxed);
    Ok(Resp::OK_REPLY)
}

/// There are no replicas of Redis: the store keeps its own.
fn wait(call: &mut Call<'_, '_>) -> Done {
    call.integer(1)?;
    call.count(2).map_err(|_| said("ERR timeout is not an integer or out of range"))?;
    Ok(Resp::Number(0))
}

fn function(call: &mut Call<'_, '_>) -> Done {
    if call.says(1, "flush") {
        return Ok(Resp::OK_REPLY);
    }
    if call.says(1, "list") {
        return Ok(Resp::Array(Vec::new()));
    }
    Err(said("ERR this server has no scripts and no functions"))
}

fn publish(call: &mut Call<'_, '_>) -> Done {
    let count = call.server.channels.count(call.word(1));
    call.published.push((call.word(1).to_vec(), call.word(2).to_vec()));
    Ok(Resp::count(count))
}

fn pubsub(call: &mut Call<'_, '_>) -> Done {
    let channels = &call.server.channels;
    if call.says(1, "channels") && call.words.len() <= 3 {
        let names = channels.names().into_iter().filter(|name| call.words.len() < 3 || matches(call.word(2), name));
        return Ok(Resp::bulks(names));
    }
    if call.says(1, "numsub") {
        let counted = |name: &Vec<u8>| [Resp::Bulk(name.clone()), Resp::count(channels.listeners(name))];
        return Ok(Resp::Array(call.words_from(2).iter().flat_map(counted).collect()));
    }
    if call.says(1, "numpat") && call.words.len() == 2 {
        return Ok(Resp::count(channels.patterns()));
    }
    Err(SYNTAX_ERROR)
}
