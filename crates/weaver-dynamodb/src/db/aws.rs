//! DynamoDB through the AWS SDK, with our own retries and backoff, so that every request is counted.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, DeleteRequest, KeysAndAttributes, ReturnConsumedCapacity,
    ReturnValue, WriteRequest,
};
use weaver_core::error::{Error, Result};

use crate::db::build::{key_condition, names_of, transact_item, values_of};
use crate::db::nonce::{self, Nonce};
use crate::db::refusal::{Refusal, invalid};
use crate::db::retry::{TRIES_MAX, backoff, is_retryable, is_throttling, random_bits, root_cause};
use crate::db::{
    Db, Found, Item, Meter, Query, Range, Table, Transacted, Usage, Write, WriteAction, Written,
};

/// Maximum number of keys of one `BatchGetItem`.
const GET_MAX: usize = 100;
/// Maximum number of items of one `BatchWriteItem`.
const WRITE_MAX: usize = 25;

/// DynamoDB through the AWS SDK.
#[derive(Debug)]
pub struct AwsDb {
    client: Client,
    /// Only for error messages.
    endpoint: String,
    meter: Meter,
}

/// A write that failed, or whose outcome is unknown.
struct Unwritten {
    code: String,
    is_ambiguous: bool,
    error: Error,
}

impl AwsDb {
    /// Wraps a client whose own retries must be disabled; `endpoint` is for error messages.
    pub fn new(client: Client, endpoint: impl Into<String>) -> Self {
        Self { client, endpoint: endpoint.into(), meter: Meter::default() }
    }

    /// The client, for table operations.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Reads one page of a whole table; only for checks, never to look up items.
    pub(crate) async fn scan(&self, table: Table, start: Option<Item>) -> Result<Found> {
        let call = || {
            let request = self.client.scan().table_name(table.name()).consistent_read(true);
            let request = request.set_exclusive_start_key(start.clone());
            request.return_consumed_capacity(ReturnConsumedCapacity::Total).send()
        };
        let answer = self.send("Scan", call).await?.map_err(|refusal| self.failed("Scan", &refusal))?;
        self.meter.read(answer.consumed_capacity());
        let next = answer.last_evaluated_key.filter(|key| !key.is_empty());
        Ok(Found { items: answer.items.unwrap_or_default(), next })
    }

    /// Sends a request with retries, exponential backoff and full jitter, so that clients that were throttled
    /// together do not retry together.
    async fn send<T, E, R, F>(
        &self,
        operation: &'static str,
        mut call: impl FnMut() -> F,
    ) -> Result<Result<T, Refusal<E>>>
    where
        F: Future<Output = Result<T, SdkError<E, R>>>,
        E: ProvideErrorMetadata + Debug + Send,
        R: Debug,
    {
        let mut last = String::new();
        let mut is_ambiguous = false;
        for attempt in 0..TRIES_MAX {
            if attempt > 0 {
                backoff(attempt).await;
            }
            self.meter.sent(operation);
            let error = match call().await {
                Ok(answer) => return Ok(Ok(answer)),
                Err(error) => error,
            };
            let throttled = match error {
                SdkError::ServiceError(service) => {
                    let error = service.into_err();
                    let code = error.code().unwrap_or_default().to_owned();
                    let message = error.message().unwrap_or_default().to_owned();
                    if !is_retryable(&code) {
                        return Ok(Err(Refusal { error, code, message, is_ambiguous }));
                    }
                    last = format!("{code} {message}");
                    let throttled = is_throttling(&code);
                    is_ambiguous |= !throttled;
                    throttled
                }
                SdkError::TimeoutError(_) => {
                    last = "request timed out".to_owned();
                    is_ambiguous = true;
                    false
                }
                SdkError::ConstructionFailure(_) => {
                    return Err(Error::Unavailable {
                        reason: format!(
                            "no credentials for {}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                            self.endpoint
                        ),
                    });
                }
                other => {
                    last = root_cause(&other);
                    is_ambiguous = true;
                    false
                }
            };
            self.meter.retried(throttled);
            tracing::debug!(operation, attempt, throttled, reason = %last, "request failed; retrying");
        }
        Err(Error::Unavailable {
            reason: format!("DynamoDB at {} failed after {TRIES_MAX} attempts: {last}", self.endpoint),
        })
    }

    /// The error of an unexpected response.
    fn failed<E>(&self, operation: &str, refusal: &Refusal<E>) -> Error {
        refusal.failed(operation, &self.endpoint)
    }

    async fn get_one(&self, table: Table, key: &Item) -> Result<Vec<Item>> {
        let call = || {
            let request = self.client.get_item().table_name(table.name()).set_key(Some(key.clone()));
            request.consistent_read(true).return_consumed_capacity(ReturnConsumedCapacity::Total).send()
        };
        let answer = self.send("GetItem", call).await?.map_err(|refusal| self.failed("GetItem", &refusal))?;
        self.meter.read(answer.consumed_capacity());
        Ok(answer.item.into_iter().collect())
    }

    async fn get_many(&self, table: Table, mut keys: Vec<Item>) -> Result<Vec<Item>> {
        let mut items = Vec::with_capacity(keys.len());
        for attempt in 0..TRIES_MAX {
            if attempt > 0 {
                backoff(attempt).await;
                self.meter.retried(true);
            }
            let wanted = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
            let wanted = wanted.map_err(|error| internal(&error))?;
            let call = || {
                let request = self.client.batch_get_item().request_items(table.name(), wanted.clone());
                request.return_consumed_capacity(ReturnConsumedCapacity::Total).send()
            };
            let answer = self.send("BatchGetItem", call).await?;
            let answer = answer.map_err(|refusal| self.failed("BatchGetItem", &refusal))?;
            answer.consumed_capacity().iter().for_each(|consumed| self.meter.read(Some(consumed)));
            items.extend(answer.responses.unwrap_or_default().into_values().flatten());
            let mut left = answer.unprocessed_keys.unwrap_or_default();
            match left.remove(table.name()) {
                Some(rest) if !rest.keys().is_empty() => keys = rest.keys,
                _ => return Ok(items),
            }
        }
        Err(Error::Unavailable {
            reason: format!("DynamoDB at {} left keys unprocessed {TRIES_MAX} times", self.endpoint),
        })
    }

    async fn remove_some(&self, table: Table, keys: &[Item]) -> Result<()> {
        let delete = |key: &Item| {
            let request = DeleteRequest::builder().set_key(Some(key.clone())).build();
            request.map(|delete| WriteRequest::builder().delete_request(delete).build())
        };
        let writes: Result<Vec<_>, _> = keys.iter().map(delete).collect();
        let mut writes = writes.map_err(|error| internal(&error))?;
        for attempt in 0..TRIES_MAX {
            if attempt > 0 {
                backoff(attempt).await;
                self.meter.retried(true);
            }
            let call = || {
                let request = self.client.batch_write_item().request_items(table.name(), writes.clone());
                request.return_consumed_capacity(ReturnConsumedCapacity::Indexes).send()
            };
            let answer = self.send("BatchWriteItem", call).await?;
            let answer = answer.map_err(|refusal| self.failed("BatchWriteItem", &refusal))?;
            answer.consumed_capacity().iter().for_each(|consumed| self.meter.wrote(Some(consumed)));
            match answer.unprocessed_items.unwrap_or_default().remove(table.name()) {
                Some(rest) if !rest.is_empty() => writes = rest,
                _ => return Ok(()),
            }
        }
        Err(Error::Unavailable {
            reason: format!("DynamoDB at {} left writes unprocessed {TRIES_MAX} times", self.endpoint),
        })
    }

    /// The item, if a write whose condition failed had been applied before and its response was lost.
    async fn was_applied(&self, nonce: Option<Nonce>, is_ambiguous: bool) -> Result<Option<Item>> {
        let Some(nonce) = nonce.filter(|_| is_ambiguous) else { return Ok(None) };
        let found = self.get_one(nonce.table, &nonce.key).await?;
        Ok(found.into_iter().find(|item| nonce.matches(item)))
    }

    async fn write_one(&self, write: &Write) -> Result<Result<Item, Unwritten>> {
        let (names, values) = (names_of(write), values_of(write));
        let table = write.table.name();
        let units = ReturnConsumedCapacity::Indexes;
        macro_rules! sent {
            ($operation:literal, $request:expr) => {{
                let call = || {
                    let request =
                        $request.table_name(table).set_condition_expression(write.condition.clone());
                    let request = request.set_expression_attribute_names(names.clone());
                    let request = request.set_expression_attribute_values(values.clone());
                    request.return_consumed_capacity(units.clone()).send()
                };
                match self.send($operation, call).await? {
                    Ok(answer) => {
                        self.meter.wrote(answer.consumed_capacity());
                        Ok(answer.attributes.unwrap_or_default())
                    }
                    Err(refusal) => {
                        let error = self.failed($operation, &refusal);
                        Err(Unwritten { code: refusal.code, is_ambiguous: refusal.is_ambiguous, error })
                    }
                }
            }};
        }
        Ok(match &write.action {
            WriteAction::Put(item) => sent!("PutItem", self.client.put_item().set_item(Some(item.clone()))),
            WriteAction::Update { key, expression } => {
                let request = || {
                    let request = self.client.update_item().set_key(Some(key.clone()));
                    request.update_expression(expression.clone()).return_values(ReturnValue::AllNew)
                };
                sent!("UpdateItem", request())
            }
            WriteAction::Delete(key) => {
                sent!("DeleteItem", self.client.delete_item().set_key(Some(key.clone())))
            }
            WriteAction::Check(_) => Ok(Item::new()),
        })
    }
}

#[async_trait]
impl Db for AwsDb {
    async fn get(&self, table: Table, keys: Vec<Item>) -> Result<Vec<Item>> {
        if let [key] = keys.as_slice() {
            return self.get_one(table, key).await;
        }
        let mut items = Vec::with_capacity(keys.len());
        for some in keys.chunks(GET_MAX) {
            items.extend(self.get_many(table, some.to_vec()).await?);
        }
        Ok(items)
    }

    async fn write(&self, mut write: Write) -> Result<Written> {
        let nonce = nonce::attach(&mut write);
        let unwritten = match self.write_one(&write).await? {
            Ok(item) => return Ok(Written::Applied(item)),
            Err(unwritten) => unwritten,
        };
        match unwritten.code.as_str() {
            "ConditionalCheckFailedException" => {
                if let Some(item) = self.was_applied(nonce, unwritten.is_ambiguous).await? {
                    return Ok(Written::Applied(item));
                }
                self.meter.condition_failed();
                Ok(Written::ConditionFailed)
            }
            "TransactionConflictException" => Ok(Written::Conflict),
            _ => Err(unwritten.error),
        }
    }

    async fn transact(&self, mut writes: Vec<Write>) -> Result<Transacted> {
        let nonce = nonce::attach_to_one(&mut writes);
        let items: Result<Vec<_>, _> = writes.iter().map(transact_item).collect();
        let items = items.map_err(|error| internal(&error))?;
        let token = random_token();
        let call = || {
            let request = self.client.transact_write_items().set_transact_items(Some(items.clone()));
            let request = request.client_request_token(&token);
            request.return_consumed_capacity(ReturnConsumedCapacity::Indexes).send()
        };
        let refusal = match self.send("TransactWriteItems", call).await? {
            Ok(answer) => {
                answer.consumed_capacity().iter().for_each(|consumed| self.meter.wrote(Some(consumed)));
                return Ok(Transacted::Applied);
            }
            Err(refusal) => refusal,
        };
        let TransactWriteItemsError::TransactionCanceledException(cancelled) = &refusal.error else {
            return match refusal.code.as_str() {
                "TransactionInProgressException" => Ok(Transacted::Conflict),
                _ => Err(self.failed("TransactWriteItems", &refusal)),
            };
        };
        let codes: Vec<&str> =
            cancelled.cancellation_reasons().iter().map(|reason| reason.code().unwrap_or("None")).collect();
        let refused: Vec<usize> =
            (0..codes.len()).filter(|index| codes[*index] == "ConditionalCheckFailed").collect();
        if !refused.is_empty() {
            // The request token suffices on AWS; older versions of DynamoDB Local ignore it.
            if self.was_applied(nonce, refusal.is_ambiguous).await?.is_some() {
                return Ok(Transacted::Applied);
            }
            self.meter.condition_failed();
            return Ok(Transacted::ConditionFailed(refused));
        }
        let busy = |code: &&str| {
            matches!(*code, "TransactionConflict" | "ThrottlingError")
                || code.starts_with("ProvisionedThroughput")
        };
        if codes.iter().any(busy) {
            return Ok(Transacted::Conflict);
        }
        let is_invalid = |reason: &&CancellationReason| reason.code() == Some("ValidationError");
        if let Some(reason) = cancelled.cancellation_reasons().iter().find(is_invalid) {
            return Err(invalid("TransactWriteItems", &self.endpoint, reason.message().unwrap_or_default()));
        }
        Err(self.failed("TransactWriteItems", &refusal))
    }

    async fn query(&self, query: Query) -> Result<Found> {
        let (partition, sort) = query.index.map_or(query.table.key(), |index| index.key());
        let (condition, bounds) = key_condition(&query.range);
        let mut values = HashMap::from([(":pk".to_owned(), AttributeValue::S(query.partition.clone()))]);
        values.extend(bounds);
        let mut names = HashMap::from([("#pk".to_owned(), partition.to_owned())]);
        if query.range != Range::All {
            names.insert("#sk".to_owned(), sort.to_owned());
        }
        let call = || {
            let request = self.client.query().table_name(query.table.name());
            let request = request.set_index_name(query.index.map(|index| index.name().to_owned()));
            let request = request.key_condition_expression(condition);
            let request = request.set_expression_attribute_names(Some(names.clone()));
            let request = request.set_expression_attribute_values(Some(values.clone()));
            let request = request.scan_index_forward(query.forward).consistent_read(query.index.is_none());
            let limit = query.limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX));
            let request = request.set_limit(limit).set_exclusive_start_key(query.start.clone());
            request.return_consumed_capacity(ReturnConsumedCapacity::Total).send()
        };
        let answer = self.send("Query", call).await?.map_err(|refusal| self.failed("Query", &refusal))?;
        self.meter.read(answer.consumed_capacity());
        let next = answer.last_evaluated_key.filter(|key| !key.is_empty());
        Ok(Found { items: answer.items.unwrap_or_default(), next })
    }

    async fn remove(&self, table: Table, keys: Vec<Item>) -> Result<()> {
        for some in keys.chunks(WRITE_MAX) {
            self.remove_some(table, some).await?;
        }
        Ok(())
    }

    fn usage(&self) -> Usage {
        self.meter.usage()
    }
}

fn internal(error: &impl std::fmt::Display) -> Error {
    Error::Unavailable { reason: format!("a request could not be built: {error}") }
}

fn random_token() -> String {
    format!("{:032x}", random_bits())
}
