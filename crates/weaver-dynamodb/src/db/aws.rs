//! The real one: Amazon's client, with our own patience. Its retries are switched off, so that every request is counted.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    AttributeValue, DeleteRequest, KeysAndAttributes, ReturnConsumedCapacity, ReturnValue, WriteRequest,
};
use weaver_core::error::{Error, Result};

use crate::db::build::{key_condition, names_of, transact_item, values_of};
use crate::db::{Act, Db, Found, Item, Meter, Query, Range, Table, Transacted, Usage, Write, Written};

/// The most keys of one `BatchGetItem`.
const GET_MAX: usize = 100;
/// The most items of one `BatchWriteItem`.
const WRITE_MAX: usize = 25;
/// How often a request is sent before it is given up.
const TRIES_MAX: u32 = 8;
/// The longest pause after the first failure; it doubles with each.
const PAUSE_MIN: Duration = Duration::from_millis(25);
/// The longest pause of all.
const PAUSE_MAX: Duration = Duration::from_secs(2);

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

    /// Sends a request until it is answered for good, with pauses that grow and are drawn at random, so that those who
    /// were throttled together do not come back together.
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
                        return Ok(Err(Refusal { error, code, message }));
                    }
                    last = format!("{code} {message}");
                    is_throttling(&code)
                }
                SdkError::TimeoutError(_) => {
                    last = "no answer in time".to_owned();
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

    async fn write_one(&self, write: &Write) -> Result<Result<Item, (String, Error)>> {
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
                        Err((refusal.code, error))
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

    async fn write(&self, write: Write) -> Result<Written> {
        match self.write_one(&write).await? {
            Ok(item) => Ok(Written::Done(item)),
            Err((code, _)) if code == "ConditionalCheckFailedException" => {
                self.meter.refused();
                Ok(Written::Refused)
            }
            Err((code, _)) if code == "TransactionConflictException" => Ok(Written::Busy),
            Err((_, error)) => Err(error),
        }
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<Transacted> {
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

fn is_throttling(code: &str) -> bool {
    matches!(code, "ProvisionedThroughputExceededException" | "ThrottlingException" | "RequestLimitExceeded")
}

fn is_worth_repeating(code: &str) -> bool {
    is_throttling(code)
        || matches!(code, "InternalServerError" | "InternalFailure" | "ServiceUnavailable" | "")
}

fn internal(error: &impl std::fmt::Display) -> Error {
    Error::Unavailable { reason: format!("a request could not be built: {error}") }
}

/// What went wrong with a connection, without the layers around it.
fn short<E: Debug, R: Debug>(error: &SdkError<E, R>) -> String {
    let mut source: &dyn std::error::Error = match error {
        SdkError::DispatchFailure(failure) => match failure.as_connector_error() {
            Some(error) => error,
            None => return "the connection failed".to_owned(),
        },
        SdkError::ResponseError(_) => return "the answer could not be read".to_owned(),
        _ => return "the request failed".to_owned(),
    };
    while let Some(deeper) = source.source() {
        source = deeper;
    }
    source.to_string()
}

fn random_token() -> String {
    format!("{:032x}", random_bits())
}

/// 128 random bits.
pub(crate) fn random_bits() -> u128 {
    let mut bytes = [0; 16];
    // Without a source of randomness nothing here is safe to do; the operating system always has one.
    getrandom::fill(&mut bytes).expect("the operating system has random bytes");
    u128::from_le_bytes(bytes)
}

/// Waits at random, up to a time that doubles with each attempt.
#[expect(
    clippy::disallowed_methods,
    reason = "this waits for a server on the network, which no virtual clock moves"
)]
pub(crate) async fn pause(attempt: u32) {
    let most = PAUSE_MIN.saturating_mul(1 << attempt.min(10)).min(PAUSE_MAX);
    let share = (random_bits() >> 96) as u32;
    tokio::time::sleep(most.mul_f64(f64::from(share) / f64::from(u32::MAX))).await;
}
