//! The guides tell the truth: their commands work in the order in which they stand, and print what the guides show.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::place::{Place, noise};

/// The blocks of a kind in a guide.
fn blocks<'a>(guide: &'a str, kind: &str) -> impl Iterator<Item = &'a str> {
    guide
        .split(&format!("```{kind}\n"))
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect::<Vec<_>>()
        .into_iter()
}

#[test]
fn the_guide_to_views_works_as_it_says() {
    let guide = include_str!("../../../../../docs/guide/views.md");
    let place = Place::new();
    place.write("particles.dataset", blocks(guide, "dataset").next().unwrap());
    let dump = noise(16_000, 5);
    place.write("dump", &dump);
    for line in blocks(guide, "console").next().unwrap().lines() {
        let words: Vec<&str> = line.strip_prefix("terrace ").unwrap().split(' ').collect();
        place.good(words);
    }
    let fields: Vec<u8> =
        (0..4).flat_map(|field| dump.chunks(16).flat_map(move |p| p[4 * field..4 * field + 4].to_vec())).collect();
    assert!(place.read("fields") == fields && place.read("same") == fields);
    let sample: Vec<u8> = dump.chunks(16).step_by(100).flat_map(|p| [p[3], p[2], p[1], p[0]]).collect();
    assert!(place.read("sample") == sample);
    assert!(place.path("particles.zarr/particles/cell/c/0").exists());
}

/// A command of a session, and what the guide shows that it prints.
struct Step {
    command: String,
    shown: String,
}

/// The steps of a guide's sessions, in which the guide's directories are below `folder`.
fn steps(guide: &str, folder: &Path) -> Vec<Step> {
    let folder = folder.display();
    let moved = |text: &str| {
        let text = text.replace("/dev/shm/me", &format!("{folder}/shm"));
        ["\"", "=", " "]
            .iter()
            .fold(text, |text, before| text.replace(&format!("{before}/data/"), &format!("{before}{folder}/data/")))
    };
    let step = |text: &str| {
        let (command, shown) = text.split_once('\n').unwrap_or((text, ""));
        Step { command: moved(command), shown: moved(shown) }
    };
    blocks(guide, "console").flat_map(|block| block.strip_prefix("$ ").unwrap().split("\n$ ")).map(step).collect()
}

/// The lines that are the same in each run: no tables, which are indented, and no dates. Sizes, times and rates are `#`.
fn stable_lines(text: &str) -> Vec<String> {
    let stable_word = |word: &str| {
        let is_count = word.trim_end_matches([',', ':', ';']).parse::<u64>().is_ok();
        if is_count || !word.contains(|letter: char| letter.is_ascii_digit()) {
            word.to_owned()
        } else {
            "#".to_owned()
        }
    };
    let lines = text.lines().filter(|line| !line.starts_with(' ') && !line.is_empty() && !line.contains("UTC"));
    lines.map(|line| line.split_whitespace().map(stable_word).collect::<Vec<_>>().join(" ")).collect()
}

/// Flips a bit in the first frame of the segments in a folder.
fn damage_a_frame(segments: &Path) {
    let segment = fs::read_dir(segments).unwrap().next().unwrap().unwrap().path();
    let file = fs::File::options().read(true).write(true).open(segment).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 5000).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 5000).unwrap();
}

/// Of the commands some printed other words than the guide had.
#[test]
fn the_guide_to_the_command_line_works_as_it_says() {
    let place = Place::empty();
    let numbers = (0..300_000).flat_map(|n| (f64::from(n) / 100.0).sin().to_le_bytes()).collect::<Vec<u8>>();
    place.write("runs/a.f64", numbers);
    place.write(
        "runs/logs/today.txt",
        (0..1000).flat_map(|n| format!("step {}\n", (n + 1) % 10).into_bytes()).collect::<Vec<_>>(),
    );
    let archive = place.path("archive tier");
    place.write(
        "archive.toml",
        format!("[[tier]]\nname = 'archive'\nkind = 'directory'\ntargets = ['{}']\n", archive.display()),
    );
    place.write("burst/a", "a");
    place.write("burst/b", "b");
    place.write("particle.h", "struct particle { float x; int id; };\n");
    let programs = Path::new(env!("CARGO_BIN_EXE_terrace")).parent().unwrap();
    let search = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());

    let mut differences = Vec::new();
    let steps = steps(include_str!("../../../../../docs/guide/command-line.md"), &place.path(""));
    assert!(steps.len() > 35, "only {} commands were found", steps.len());
    let mut store = String::new();
    for Step { command, shown } in steps {
        if let Some(file) = command.strip_prefix("cat ") {
            place.write(file, shown);
            continue;
        }
        if let Some(named) = command.strip_prefix("export TERRACE_STORE=") {
            store = named.to_owned();
            continue;
        }
        if command.starts_with("terrace scrub") {
            damage_a_frame(&place.path("data/disk/segments"));
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 2>&1\n{command}")]).current_dir(place.path("")).stdin(Stdio::null());
        shell.env("PATH", &search).env("HOME", place.path("home")).env("TERRACE_STORE", &store).env("LC_ALL", "C");
        shell.env_remove("XDG_DATA_HOME").env_remove("TERRACE_LOG");
        let output = shell.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let tells_of_failure = ["terrace: ", "{\"error\"", "8 replicas checked, 1 bad, 0"];
        let may_fail = tells_of_failure.iter().any(|start| shown.starts_with(start));
        assert!(output.status.success() || may_fail, "{command}: {printed}");
        // What is left out stands as dots, and nothing where the output is not of interest.
        let is_whole = !shown.is_empty() && !shown.lines().any(|line| line.trim() == "...");
        if is_whole && stable_lines(&shown) != stable_lines(&printed) {
            differences.push(format!("$ {command}\nthe guide:\n{shown}\nterrace:\n{printed}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Every command of every guide has flags that exist: with `--help` behind them it does nothing, and fails at a wrong one.
#[test]
fn commands_of_all_guides_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap();
    let guides = fs::read_dir(root.join("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
    let programs = Path::new(env!("CARGO_BIN_EXE_terrace")).parent().unwrap();
    let search = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let place = Place::empty();
    let (mut tried, mut wrong) = (0, Vec::new());
    for path in guides.chain([root.join("README.md")]) {
        let text = fs::read_to_string(&path).unwrap();
        let mut in_block = false;
        for line in text.lines() {
            if line.starts_with("```") {
                in_block = !in_block;
            }
            let is_command = ["terrace ", "$ terrace ", "mpirun "].iter().any(|start| line.starts_with(start));
            // What follows `--run` is another program's.
            if !in_block || !is_command || line.contains(" --run ") {
                continue;
            }
            let command = &line[line.find("terrace ").unwrap()..];
            let command = command.split(" #").next().unwrap().split(" > ").next().unwrap();
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{command} --help")]).current_dir(place.path("")).stdin(Stdio::null());
            let output = shell.env("PATH", &search).env("HOME", place.path("home")).output().unwrap();
            tried += 1;
            if !output.status.success() {
                wrong.push(format!("{}: {command}\n{}", path.display(), String::from_utf8_lossy(&output.stderr)));
            }
        }
    }
    assert!(tried > 60, "only {tried} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
