//! Errors are reported, and the examples of the reference are right.

#![allow(clippy::unwrap_used, clippy::panic)]

use terrace_views::convert::{Plan, Stored, Window, WindowMut};
use terrace_views::language::read;
use terrace_views::layout::{Layout, of_replica, of_view};
use terrace_views::model::{Model, Sizes};
use terrace_views::{Diagnostic, Diagnostics, Severity};

/// Returns a declaration's model and diagnostics.
fn check(text: &str) -> (Model, Vec<Diagnostic>) {
    let mut diagnostics = Diagnostics::default();
    let mut load = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    let (file, _) = read("main.dataset", text.to_owned(), &mut load, &mut diagnostics);
    let model = Model::of(&file, &mut diagnostics);
    (model, diagnostics.sorted())
}

fn good(text: &str) -> Model {
    let (model, said) = check(text);
    assert!(said.iter().all(|d| d.severity == Severity::Warning), "{said:#?}\n{text}");
    model
}

fn view(model: &Model, name: &str) -> Layout {
    of_view(model.view(name).unwrap(), &model.dataset, &Sizes::new()).unwrap()
}

#[test]
fn each_wrong_declaration_gets_its_message() {
    let (mut cases, mut failed) = (0, Vec::new());
    for case in include_str!("wrong.txt").split("=== ").skip(1) {
        let (wanted, text) = case.split_once('\n').unwrap();
        let (_, said) = check(text);
        if !said.iter().any(|d| d.severity == Severity::Error) {
            failed.push(format!("nothing is said about\n{text}"));
        }
        for wanted in wanted.split(" | ") {
            let says = |d: &Diagnostic| {
                d.message.contains(wanted)
                    || d.help.as_ref().is_some_and(|help| help.contains(wanted))
                    || d.labels.iter().any(|(_, label)| label.contains(wanted))
            };
            if !said.iter().any(says) {
                let said: Vec<_> = said.iter().map(|d| (&d.message, &d.help)).collect();
                failed.push(format!("{wanted:?} is not said, but {said:?} of\n{text}"));
            }
        }
        cases += 1;
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(cases >= 60);
}

#[test]
fn several_errors_are_found_in_one_run() {
    let text = "dataset { var a Foo\nvar b [M]int8\nvar c int8 int8\n}\nreplica r complete { backend nfs }";
    assert!(check(text).1.len() >= 3);
}

#[test]
fn warnings_do_not_fail() {
    let text = "dataset { var p struct { a, b, c float32 } }\nview viz { var pa { a } = p; var pba { b, a } = p }";
    let (_, said) = check(text);
    assert!(
        said.iter().any(
            |d| d.message == "`p.a` is in the view twice; if the copies differ, the last one in the file is stored"
        )
    );
    let (_, said) = check("dataset { var a, b int8 }\nview v { var a = a }\nreplica r { view v }");
    assert!(said.iter().any(|d| d.severity == Severity::Warning && d.message.contains("no replica stores all of `b`")));
}

#[test]
fn errors_are_reported_after_any_number_of_warnings() {
    let twice: String = (0..200).map(|i| format!("view v{i} {{ var a = a; var b = a }}\n")).collect();
    let wrong = "view slides { var w [i < 4, j < 3] = a[i + j] }\nreplica r { view v0; view slides }";
    let (_, said) = check(&format!("dataset {{ var a [6]int32 }}\n{twice}{wrong}"));
    let errors: Vec<&Diagnostic> = said.iter().filter(|d| d.severity == Severity::Error).collect();
    assert!(errors.iter().any(|error| error.message.contains("have no one place")), "{errors:?}");
}

#[test]
fn examples_of_the_reference_are_right() {
    let text = include_str!("../../../../docs/dataset-language.md");
    let blocks: Vec<&str> = text.split("```dataset\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 8);
    for block in blocks {
        good(block);
    }
}

#[test]
fn huge_datasets_cost_nothing() {
    let model = good(
        "dataset { const N = 1152921504606846976/16; var data [N]struct { a, b float32; c float64 } }\n\
         view aos { var data = data }\nview soa { var a [] { a } = data; var b [] { b } = data; var c [] { c } = data }\n\
         replica r { view aos }",
    );
    let stored = of_replica(&model.replicas[0], &model.views, &model.dataset, &Sizes::new()).unwrap();
    assert_eq!(stored.files, [1 << 60]);
    let plan = Plan::converting(&view(&model, "soa"), &stored);
    // 4 KiB in the middle of b need 16 KiB of the file.
    let offset = (1u64 << 58) + (1 << 40);
    let file: Vec<u8> = (0..=255).cycle().take(16 << 10).collect();
    let window = Window { start: (1 << 40) * 4, bytes: &file };
    let mut out = [0; 4096];
    plan.read(offset, &mut out, &[window]).unwrap();
    for (i, element) in out.chunks(4).enumerate() {
        assert_eq!(element, &file[i * 16 + 4..i * 16 + 8]);
    }
}

/// The original release returns field a for b and c here, and writes corrupt the stored bytes. With SoA as the only
/// replica it reads wrong bytes and crashes on b.
#[test]
fn the_original_s_wrong_results_are_right() {
    let text = "dataset { const N = 100; type Point struct { a, b, c float32 }; var data [N]Point }\n\
        view aos { var data = data }\nview soa { var a []{a} = data; var b []{b} = data; var c []{c} = data }\n\
        view b { var b [] { b } = data }\n";
    let aos: Vec<u8> = (0..1200u32).map(|i| (i * 7 % 251) as u8).collect();
    let field =
        |f: usize| aos.chunks(12).flat_map(move |record| record[f * 4..f * 4 + 4].to_vec()).collect::<Vec<u8>>();
    let soa = [field(0), field(1), field(2)].concat();
    for (stored, bytes) in [("aos", &aos), ("soa", &soa)] {
        let model = good(&format!("{text}replica r {{ view {stored} }}"));
        let layout = of_replica(&model.replicas[0], &model.views, &model.dataset, &Sizes::new()).unwrap();
        for (name, right) in [("aos", &aos), ("soa", &soa), ("b", &field(1))] {
            let view = view(&model, name);
            let mut out = vec![0; right.len()];
            Plan::converting(&view, &layout).read(0, &mut out, &[bytes.as_slice().into()]).unwrap();
            assert_eq!(out, *right, "{name} of {stored}");
            let mut file = if name == "b" { bytes.clone() } else { vec![0; bytes.len()] };
            let one = Stored { layout: &layout, first_file: 0, rate: 1.0 };
            Plan::writing(&view, one).write(0, right, &mut [WindowMut::from(&mut file[..])]).unwrap();
            assert_eq!(file, *bytes, "{name} into {stored}");
        }
    }
}

#[test]
fn variable_sizes_split_replicas_into_files() {
    let model = good(
        "dataset { var n int32; var before int8; var c [n]float32; var after int64 }\n\
         view all { var n = n; var before = before; var c = c; var after = after }\nreplica r { view all }",
    );
    let sizes = Sizes::from([(0, 10)]);
    let layout = of_replica(&model.replicas[0], &model.views, &model.dataset, &sizes).unwrap();
    assert_eq!(layout.files, [48, 8]);
    assert_eq!(of_view(&model.views[0], &model.dataset, &sizes).unwrap().files, [56]);
}
