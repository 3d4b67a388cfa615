//! Builds the AWS SDK's requests from ours.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, Delete, Put, TransactWriteItem, Update};

use crate::db::{Range, Write, WriteAction};

pub(super) fn names_of(write: &Write) -> Option<HashMap<String, String>> {
    let names: HashMap<_, _> =
        write.names.iter().map(|(stands, name)| ((*stands).to_owned(), (*name).to_owned())).collect();
    (!names.is_empty()).then_some(names)
}

pub(super) fn values_of(write: &Write) -> Option<HashMap<String, AttributeValue>> {
    let values: HashMap<_, _> =
        write.values.iter().map(|(stands, value)| ((*stands).to_owned(), value.clone())).collect();
    (!values.is_empty()).then_some(values)
}

pub(super) fn transact_item(write: &Write) -> Result<TransactWriteItem, aws_sdk_dynamodb::error::BuildError> {
    let (names, values) = (names_of(write), values_of(write));
    macro_rules! filled {
        ($builder:expr) => {{
            let builder = $builder.table_name(write.table.name());
            let builder = builder.set_condition_expression(write.condition.clone());
            builder.set_expression_attribute_names(names).set_expression_attribute_values(values).build()?
        }};
    }
    let item = TransactWriteItem::builder();
    Ok(match &write.action {
        WriteAction::Put(put) => item.put(filled!(Put::builder().set_item(Some(put.clone())))),
        WriteAction::Update { key, expression } => {
            let update = Update::builder().set_key(Some(key.clone())).update_expression(expression);
            item.update(filled!(update))
        }
        WriteAction::Delete(key) => item.delete(filled!(Delete::builder().set_key(Some(key.clone())))),
        WriteAction::Check(key) => {
            item.condition_check(filled!(ConditionCheck::builder().set_key(Some(key.clone()))))
        }
    }
    .build())
}

pub(super) fn key_condition(range: &Range) -> (&'static str, Vec<(String, AttributeValue)>) {
    let bound = |stands: &str, text: &String| (stands.to_owned(), AttributeValue::S(text.clone()));
    match range {
        Range::All => ("#pk = :pk", Vec::new()),
        // Not `begins_with`: older versions of DynamoDB Local implement it by SQL's LIKE, which ignores case
        // and has wildcards.
        Range::BeginsWith(prefix) => {
            let last = format!("{prefix}{}", char::MAX);
            ("#pk = :pk AND #sk BETWEEN :from AND :to", vec![bound(":from", prefix), bound(":to", &last)])
        }
        Range::Between(from, to) => {
            ("#pk = :pk AND #sk BETWEEN :from AND :to", vec![bound(":from", from), bound(":to", to)])
        }
        Range::After(from) => ("#pk = :pk AND #sk > :from", vec![bound(":from", from)]),
        Range::Before(to) => ("#pk = :pk AND #sk < :to", vec![bound(":to", to)]),
    }
}
