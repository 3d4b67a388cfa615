//! The real one: Amazon's client, with our own patience. Its retries are switched off, so that every request
//! is counted.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    AttributeValue, DeleteRequest, KeysAndAttributes, ReturnConsumedCapacity, ReturnValue, WriteRequest,
};
use weaver_core::error::{Error, Result};

use crate::db::build::{key_condition, names_of, transact_item, values_of};
use crate::db::mark::{self, Mark};
use crate::db::patience::{TRIES_MAX, is_throttling, is_worth_repeating, pause, random_bits, short};
use crate::db::{Act, Db, Found, Item, Meter, Query, Range, Table, Transacted, Usage, Write, Written};

/// The most keys of one `BatchGetItem`.
const GET_MAX: usize = 100;
/// The most items of one `BatchWriteItem`.
const WRITE_MAX: usize = 25;

/// DynamoDB through Amazon's client.
#[derive(Debug)]
pub struct AwsDb {
    client: Client,
    /// Where it is, for errors.
    endpoint: String,
    meter: Meter,
}

/// An answer of DynamoDB that is no success and that no repetition will change.
struct Refusal<E> {
    error: E,
    code: String,
    message: String,
    /// Whether an earlier sending may have been carried out without our hearing of it.
    is_doubtful: bool,
}

/// A write that was not done, or of which that is not known.
struct Unwritten {
    code: String,
    is_doubtful: bool,
    error: Error,
}

impl AwsDb {
    /// Over a client, whose own retries should be off.
    pub fn new(client: Client, endpoint: impl Into<String>) -> Self {
        Self { client, endpoint: endpoint.into(), meter: Meter::default() }
    }

    /// The client, for tables.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Reads one page of a table, whatever partition it is in: for looking at everything, never for finding
    /// something.
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

    /// Sends a request until it is answered for good, with pauses that grow and are drawn at random, so that
    /// those who were throttled together do not come back together.
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
        let mut is_doubtful = false;
        for attempt in 0..TRIES_MAX {
            if attempt > 0 {
                pause(attempt).await;
            }
            self.meter.asked(operation);
            let error = match call().await {
                Ok(answer) => return Ok(Ok(answer)),
                Err(error) => error,
            };
            let throttled = match error {
                SdkError::ServiceError(service) => {
                    let error = service.into_err();
                    let code = error.code().unwrap_or_default().to_owned();
                    let message = error.message().unwrap_or_default().to_owned();
                    if !is_worth_repeating(&code) {
                        return Ok(Err(Refusal { error, code, message, is_doubtful }));
                    }
                    last = format!("{code} {message}");
                    let throttled = is_throttling(&code);
                    is_doubtful |= !throttled;
                    throttled
                }
                SdkError::TimeoutError(_) => {
                    last = "no answer in time".to_owned();
                    is_doubtful = true;
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
                    last = short(&other);
                    is_doubtful = true;
                    false
                }
            };
            self.meter.repeated(throttled);
            tracing::debug!(operation, attempt, throttled, reason = %last, "asked DynamoDB again");
        }
        Err(Error::Unavailable {
            reason: format!("DynamoDB at {} after {TRIES_MAX} tries: {last}", self.endpoint),
        })
    }

    /// The error of an answer that the store did not expect.
    fn failed<E>(&self, operation: &str, refusal: &Refusal<E>) -> Error {
        let (code, message) = (&refusal.code, &refusal.message);
        let what_to_do = match code.as_str() {
            "ResourceNotFoundException" => "; make the tables with `weaver store init`",
            "UnrecognizedClientException" | "InvalidSignatureException" | "AccessDeniedException" => {
                "; check the credentials and what they allow"
            }
            "ValidationException" if message.contains("size has exceeded") => {
                "; an item of DynamoDB has at most 400 KB: store what is large elsewhere"
            }
            _ => "",
        };
        Error::Unavailable {
            reason: format!("{operation} at {}: {code} {message}{what_to_do}", self.endpoint),
        }
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
                pause(attempt).await;
                self.meter.repeated(true);
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
            reason: format!("DynamoDB at {} left keys unread {TRIES_MAX} times", self.endpoint),
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
                pause(attempt).await;
                self.meter.repeated(true);
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
            reason: format!("DynamoDB at {} left writes undone {TRIES_MAX} times", self.endpoint),
        })
    }

    /// Whether a write that was refused had been done: its first answer got lost.
    async fn was_done(&self, mark: Option<Mark>, is_doubtful: bool) -> Result<Option<Item>> {
        let Some(mark) = mark.filter(|_| is_doubtful) else { return Ok(None) };
        let found = self.get_one(mark.table, &mark.key).await?;
        Ok(found.into_iter().find(|item| mark.is_on(item)))
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
                        Err(Unwritten { code: refusal.code, is_doubtful: refusal.is_doubtful, error })
                    }
                }
            }};
        }
        Ok(match &write.act {
            Act::Put(item) => sent!("PutItem", self.client.put_item().set_item(Some(item.clone()))),
            Act::Update { key, expression } => {
                let request = || {
                    let request = self.client.update_item().set_key(Some(key.clone()));
                    request.update_expression(expression.clone()).return_values(ReturnValue::AllNew)
                };
                sent!("UpdateItem", request())
            }
            Act::Delete(key) => sent!("DeleteItem", self.client.delete_item().set_key(Some(key.clone()))),
            Act::Check(_) => Ok(Item::new()),
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
        let mark = mark::put_on(&mut write);
        let unwritten = match self.write_one(&write).await? {
            Ok(item) => return Ok(Written::Done(item)),
            Err(unwritten) => unwritten,
        };
        match unwritten.code.as_str() {
            "ConditionalCheckFailedException" => {
                if let Some(item) = self.was_done(mark, unwritten.is_doubtful).await? {
                    return Ok(Written::Done(item));
                }
                self.meter.refused();
                Ok(Written::Refused)
            }
            "TransactionConflictException" => Ok(Written::Busy),
            _ => Err(unwritten.error),
        }
    }

    async fn transact(&self, mut writes: Vec<Write>) -> Result<Transacted> {
        let mark = mark::put_on_one(&mut writes);
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
                return Ok(Transacted::Done);
            }
            Err(refusal) => refusal,
        };
        let TransactWriteItemsError::TransactionCanceledException(cancelled) = &refusal.error else {
            return match refusal.code.as_str() {
                "TransactionInProgressException" => Ok(Transacted::Busy),
                _ => Err(self.failed("TransactWriteItems", &refusal)),
            };
        };
        let codes: Vec<&str> =
            cancelled.cancellation_reasons().iter().map(|reason| reason.code().unwrap_or("None")).collect();
        let refused: Vec<usize> =
            (0..codes.len()).filter(|index| codes[*index] == "ConditionalCheckFailed").collect();
        if !refused.is_empty() {
            // The token above is enough where it is kept; older local jars forget it.
            if self.was_done(mark, refusal.is_doubtful).await?.is_some() {
                return Ok(Transacted::Done);
            }
            self.meter.refused();
            return Ok(Transacted::Refused(refused));
        }
        let busy = |code: &&str| {
            matches!(*code, "TransactionConflict" | "ThrottlingError")
                || code.starts_with("ProvisionedThroughput")
        };
        if codes.iter().any(busy) {
            return Ok(Transacted::Busy);
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
