//! Requirements of a store or a call, as Java's class `Requirements` lists them: `replicas=2`, `min_storage=true`.

use engine::{Ack, Element, PutOptions};
use jni::Env;
use jni::objects::{JObjectArray, JString};

use crate::thrown::Thrown;

/// Converts settings to options.
pub fn options(env: &mut Env<'_>, settings: &JObjectArray<'_, JString<'_>>) -> Result<PutOptions, Thrown> {
    let mut options = PutOptions::default();
    for at in 0..settings.len(env)? {
        let setting = settings.get_element(env, at)?;
        set(&mut options, &setting.try_to_string(env)?).map_err(Thrown::Invalid)?;
        env.delete_local_ref(setting);
    }
    options.check().map_err(|error| Thrown::Invalid(error.to_string()))?;
    Ok(options)
}

fn set(options: &mut PutOptions, setting: &str) -> Result<(), String> {
    let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
    let wrong = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    match name {
        "replicas" => options.replicas = Some(value.parse().map_err(|error| wrong(&error))?),
        "ack" => options.ack = Some(value.parse().map_err(|error| wrong(&error))?),
        "weights" => options.weights = Some(value.parse().map_err(|error| wrong(&error))?),
        "budget" => options.budget = Some(value.parse().map_err(|error| wrong(&error))?),
        "element" => options.element = Some(element(value)?),
        "max_latency" => options.max_latency = Some(value.parse().map_err(|error| wrong(&error))?),
        "tier" => options.tiers.get_or_insert_default().push(value.to_owned()),
        "create_new" => options.create_new = true,
        _ => options.requirements.push(setting.parse().map_err(|error| format!("{error}"))?),
    }
    Ok(())
}

/// Returns the acknowledgement with this name.
pub fn ack(name: &str) -> Result<Ack, Thrown> {
    name.parse().map_err(|error| Thrown::Invalid(format!("ack: {error}")))
}

/// Returns the element type that encodings have under this name.
fn element(name: &str) -> Result<Element, String> {
    name.parse().map_err(|error| format!("element: {error}"))
}
