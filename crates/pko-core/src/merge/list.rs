//! Merges lists in linear time: items are found by hash.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{MergeError, MergeField, field_path::FieldPath, merge_object};

/// Numbers values in the order of their first occurrence.
#[derive(Default)]
struct Numbers(HashMap<Value, usize>);

impl Numbers {
    fn of(&mut self, value: Value) -> usize {
        let next = self.0.len();
        *self.0.entry(value).or_insert(next)
    }
}

/// An item of a list, with the number of its value or of its key.
struct Numbered<T> {
    number: usize,
    item: T,
}

/// The union of plain values, in the order of [`interleave`].
pub(super) fn union(base: Vec<Value>, patch: &[Value]) -> Vec<Value> {
    let mut numbers = Numbers::default();
    let mut kept = distinct(base, &mut numbers);
    let in_base = numbers.0.len();
    let new = distinct(patch.to_vec(), &mut numbers);
    let in_patch: HashSet<usize> = new.iter().map(|new| new.number).collect();
    kept.retain(|kept| !in_patch.contains(&kept.number));
    interleave(kept, new, in_base)
}

/// Removes duplicates.
fn distinct(values: Vec<Value>, numbers: &mut Numbers) -> Vec<Numbered<Value>> {
    let mut seen = HashSet::new();
    let values = values.into_iter().map(|item| Numbered {
        number: numbers.of(item.clone()),
        item,
    });
    values.filter(|value| seen.insert(value.number)).collect()
}

/// Merges objects with the same key; the order is that of [`interleave`].
pub(super) fn merge(
    field: &MergeField,
    key: &'static str,
    field_path: &FieldPath<'_>,
    base: Vec<Value>,
    patch: &[Value],
) -> Result<Vec<Value>, MergeError> {
    let list = Keyed {
        field,
        key,
        path: field_path,
    };
    let mut numbers = Numbers::default();
    let mut items = Items::default();
    for item in base {
        items.push(list.number_item(item, &mut numbers)?);
    }
    let in_base = numbers.0.len();
    let mut in_patch = HashMap::new();
    for new in patch {
        let new = list.number_item(new.clone(), &mut numbers)?;
        let next = in_patch.len();
        in_patch.entry(new.number).or_insert(next);
        list.put(&mut items, new)?;
    }
    let (mut new, kept): (Vec<_>, Vec<_>) = items
        .items
        .into_iter()
        .partition(|item| in_patch.contains_key(&item.number));
    new.sort_by_key(|item| in_patch.get(&item.number));
    let merged = interleave(kept, new, in_base);
    Ok(merged.into_iter().map(Value::Object).collect())
}

/// Objects, and the index of the first one with each number.
#[derive(Default)]
struct Items {
    items: Vec<Numbered<Map<String, Value>>>,
    first: HashMap<usize, usize>,
}

impl Items {
    fn push(&mut self, item: Numbered<Map<String, Value>>) {
        self.first.entry(item.number).or_insert(self.items.len());
        self.items.push(item);
    }

    fn find(&mut self, number: usize) -> Option<&mut Map<String, Value>> {
        let first = *self.first.get(&number)?;
        self.items.get_mut(first).map(|found| &mut found.item)
    }
}

struct Keyed<'a> {
    field: &'a MergeField,
    key: &'static str,
    path: &'a FieldPath<'a>,
}

impl Keyed<'_> {
    fn number_item(
        &self,
        item: Value,
        numbers: &mut Numbers,
    ) -> Result<Numbered<Map<String, Value>>, MergeError> {
        let list = || self.path.to_string();
        let Value::Object(item) = item else {
            return Err(MergeError::NotAnObject { list: list() });
        };
        let key = item
            .get(self.key)
            .cloned()
            .ok_or_else(|| MergeError::NoKey {
                list: list(),
                key: self.key,
            })?;
        Ok(Numbered {
            number: numbers.of(key),
            item,
        })
    }

    fn put(&self, items: &mut Items, new: Numbered<Map<String, Value>>) -> Result<(), MergeError> {
        let Some(old) = items.find(new.number) else {
            items.push(new);
            return Ok(());
        };
        let value = new.item.get(self.key).unwrap_or(&Value::Null);
        let path = self.path.item(self.key, value);
        let base = std::mem::take(old);
        *old = merge_object(self.field.kind, &path, base, &new.item)?;
        Ok(())
    }
}

/// Combines the items that only the base has with those of the patch. Each group keeps its order.
/// An item of the base comes before one of the patch only if it did so in the base; new items of
/// the patch come first. Numbers below `in_base` belong to the base, in its order.
fn interleave<T>(kept: Vec<Numbered<T>>, new: Vec<Numbered<T>>, in_base: usize) -> Vec<T> {
    let mut merged = Vec::with_capacity(kept.len() + new.len());
    let mut kept = kept.into_iter().peekable();
    for Numbered { number, item } in new {
        while let Some(old) = kept.next_if(|old| number < in_base && old.number < number) {
            merged.push(old.item);
        }
        merged.push(item);
    }
    merged.extend(kept.map(|old| old.item));
    merged
}
