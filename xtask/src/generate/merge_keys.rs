//! Generates the Rust table of list merge keys of Kubernetes' types.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::Context;
use serde_json::Value;

const CORE: &str = "io.k8s.api.core.v1.";

/// A list with a merge key.
struct MergeList<'a> {
    name: &'a str,
    key: &'a str,
    item: &'a str,
}

/// The table for all lists in a pod's spec.
pub(super) fn rust_table(
    version: &str,
    schemas: &BTreeMap<String, Value>,
) -> anyhow::Result<String> {
    let mut text = format!(
        "//! Made by `cargo xtask generate` from Kubernetes {version}: lists that merge by a key.\n\n\
         use super::{{MergeSchema, schema::MergeField}};\n"
    );
    let mut tables = BTreeMap::new();
    collect("PodSpec", schemas, &mut tables)?;
    for (kind, lists) in &tables {
        write!(
            text,
            "\npub(super) static {}: MergeSchema = MergeSchema(&[\n",
            constant(kind)
        )?;
        for list in lists {
            let item = match tables.get(list.item) {
                Some(lists) if !lists.is_empty() => format!("Some(&{})", constant(list.item)),
                _ => "None".to_owned(),
            };
            writeln!(
                text,
                "    MergeField::list({:?}, {:?}, {item}),",
                list.name, list.key
            )?;
        }
        text.push_str("]);\n");
    }
    Ok(text)
}

/// Collects the lists of a type and of their items.
fn collect<'a>(
    kind: &'a str,
    schemas: &'a BTreeMap<String, Value>,
    tables: &mut BTreeMap<&'a str, Vec<MergeList<'a>>>,
) -> anyhow::Result<()> {
    let schema = schemas.get(&format!("{CORE}{kind}"));
    let properties = schema
        .and_then(|schema| schema.get("properties")?.as_object())
        .with_context(|| format!("Kubernetes has no type {kind} with properties"))?;
    let lists: Vec<MergeList<'_>> = properties
        .iter()
        .filter_map(|(name, property)| merging_list(name, property))
        .collect();
    let items: Vec<&str> = lists.iter().map(|list| list.item).collect();
    if !lists.is_empty() {
        tables.insert(kind, lists);
    }
    for item in items {
        if !tables.contains_key(item) {
            collect(item, schemas, tables)?;
        }
    }
    Ok(())
}

fn merging_list<'a>(name: &'a str, property: &'a Value) -> Option<MergeList<'a>> {
    let strategy = property.get("x-kubernetes-patch-strategy")?.as_str()?;
    if !strategy.split(',').any(|word| word == "merge") {
        return None;
    }
    let key = property.get("x-kubernetes-patch-merge-key")?.as_str()?;
    let reference = property.pointer("/items/allOf/0/$ref")?.as_str()?;
    let item = reference.rsplit_once(CORE)?.1;
    Some(MergeList { name, key, item })
}

/// `PodSpec` is `POD_SPEC`.
fn constant(kind: &str) -> String {
    let mut name = String::new();
    for letter in kind.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_names_are_upper_snake_case() {
        assert_eq!(constant("PodSpec"), "POD_SPEC");
        assert_eq!(constant("Container"), "CONTAINER");
    }
}
