//! Lists that merge.

use serde_json::{Map, Value};

use super::{MergeError, MergeField, merge_object};

/// Plain values: those of both, each once, in the order that [`interleave`] gives them.
pub(super) fn unite(base: Vec<Value>, patch: &[Value]) -> Vec<Value> {
    let order = base.clone();
    let mut kept: Vec<Value> = Vec::new();
    for value in base {
        if !patch.contains(&value) && !kept.contains(&value) {
            kept.push(value);
        }
    }
    let mut new: Vec<Value> = Vec::new();
    for value in patch {
        if !new.contains(value) {
            new.push(value.clone());
        }
    }
    interleave(kept, new, |value| {
        order.iter().position(|other| other == value)
    })
}

/// Objects: those with the same key are merged, the others follow [`interleave`].
pub(super) fn merge(
    field: &MergeField,
    key: &'static str,
    place: &str,
    base: Vec<Value>,
    patch: &[Value],
) -> Result<Vec<Value>, MergeError> {
    let list = Keyed { field, key, place };
    let mut items = base
        .into_iter()
        .map(|item| list.item(item))
        .collect::<Result<Vec<_>, _>>()?;
    let order: Vec<Value> = items.iter().map(|item| item.key.clone()).collect();
    let mut wanted: Vec<Value> = Vec::new();
    for new in patch {
        let new = list.item(new.clone())?;
        wanted.push(new.key.clone());
        list.put(&mut items, new)?;
    }
    let position = |keys: &[Value], item: &Item| keys.iter().position(|key| *key == item.key);
    let (mut new, kept): (Vec<_>, Vec<_>) = items
        .into_iter()
        .partition(|item| wanted.contains(&item.key));
    new.sort_by_key(|item| position(&wanted, item));
    let merged = interleave(kept, new, |item| position(&order, item));
    Ok(merged.into_iter().map(|item| item.object.into()).collect())
}

struct Keyed<'a> {
    field: &'a MergeField,
    key: &'static str,
    place: &'a str,
}

struct Item {
    key: Value,
    object: Map<String, Value>,
}

impl Keyed<'_> {
    fn item(&self, item: Value) -> Result<Item, MergeError> {
        let list = || self.place.to_owned();
        let Value::Object(object) = item else {
            return Err(MergeError::NotAnObject { list: list() });
        };
        let key = object
            .get(self.key)
            .cloned()
            .ok_or_else(|| MergeError::NoKey {
                list: list(),
                key: self.key,
            })?;
        Ok(Item { key, object })
    }

    fn put(&self, items: &mut Vec<Item>, new: Item) -> Result<(), MergeError> {
        let Some(old) = items.iter_mut().find(|item| item.key == new.key) else {
            items.push(new);
            return Ok(());
        };
        let inner = format!("{}[{}={}]", self.place, self.key, text(&new.key));
        let base = std::mem::take(&mut old.object);
        old.object = merge_object(self.field.kind, &inner, base, &new.object)?;
        Ok(())
    }
}

fn text(key: &Value) -> String {
    key.as_str().map_or_else(|| key.to_string(), str::to_owned)
}

/// What only the base has, and what the patch has: each keeps its order, and one of the base goes first
/// only where it stood before the other in the base too. So a new item stands before old ones.
fn interleave<T>(kept: Vec<T>, new: Vec<T>, place: impl Fn(&T) -> Option<usize>) -> Vec<T> {
    let mut merged = Vec::with_capacity(kept.len() + new.len());
    let mut kept = kept.into_iter().peekable();
    for item in new {
        let here = place(&item);
        while let Some(old) = kept.next_if(|old| here.is_some_and(|here| place(old) < Some(here))) {
            merged.push(old);
        }
        merged.push(item);
    }
    merged.extend(kept);
    merged
}
