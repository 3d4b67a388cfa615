//! Creates and checks the tables: seed 000's two, as in its YAML, and one of ours.
//!
//! An existing table is compared, never changed, except that our index is added to a queue table created from
//! the seed's YAML.

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, CreateGlobalSecondaryIndexAction, GlobalSecondaryIndex,
    GlobalSecondaryIndexUpdate, IndexStatus, KeySchemaElement, KeyType, Projection, ProjectionType,
    ProvisionedThroughput, ScalarAttributeType, TableDescription,
};

use crate::db::{AwsDb, Index, TRIES_MAX, Table, backoff, is_retryable};
use crate::error::StoreError;

/// Attributes projected into `ready-index`: enough to choose tasks by.
const READY_ATTRIBUTES: [&str; 7] =
    ["version", "state", "task_type", "fragile", "serial_key", "expires_at_us", "executions"];
/// Name prefix of the tables of seed 000's first version, one per namespace.
const V1_PREFIX: &str = "pm-runner-queue-";
/// Maximum number of polls until a new table or index is active.
const POLLS_MAX: u32 = 120;

/// The tables and indexes that [`ensure_tables`] created.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreatedTables {
    /// One message per created table or index; empty if all existed.
    pub lines: Vec<String>,
}

/// Creates missing tables, and adds our index to a queue table without it.
///
/// # Errors
/// If an existing table has another schema: then nothing is changed. If DynamoDB is unreachable.
pub async fn ensure_tables(db: &AwsDb, endpoint: &str) -> Result<CreatedTables, StoreError> {
    // All are compared before anything is created: on a mismatch nothing is changed.
    let mut found = Vec::new();
    for table in Table::ALL {
        let description = describe(db, table, endpoint).await?;
        if let Some(description) = &description {
            compare(table, description)?;
        }
        found.push((table, description));
    }
    let mut made = CreatedTables::default();
    for (table, description) in found {
        match description {
            None => {
                create(db, table, endpoint).await?;
                made.lines.push(format!("created table `{}`", table.name()));
            }
            Some(description) if table == Table::Queue && !has_index(&description, Index::Ready) => {
                add_ready_index(db, &description, endpoint).await?;
                made.lines.push(format!("added index `{}` to table `{}`", Index::Ready.name(), table.name()));
            }
            Some(_) => {}
        }
    }
    Ok(made)
}

/// Checks that all tables exist with the right schema; creates none.
///
/// # Errors
/// If one is missing or has another schema, or if DynamoDB is unreachable.
pub async fn check_tables(db: &AwsDb, endpoint: &str) -> Result<(), StoreError> {
    for table in Table::ALL {
        let description = describe(db, table, endpoint).await?;
        let missing = || StoreError::MissingTable { table: table.name(), command: init_command(endpoint) };
        let description = description.ok_or_else(missing)?;
        compare(table, &description)?;
        if table == Table::Queue && !has_index(&description, Index::Ready) {
            let reason = format!("add it with `{}`", init_command(endpoint));
            return Err(StoreError::MissingIndex { table: table.name(), index: Index::Ready.name(), reason });
        }
    }
    Ok(())
}

/// The command that creates what is missing.
fn init_command(endpoint: &str) -> String {
    let place = endpoint.split_once("://").map_or(endpoint, |(_, place)| place);
    format!("weaver store init --store dynamodb://{place}")
}

/// Names of tables of seed 000's first version, which Weaver never reads or deletes.
///
/// # Errors
/// If DynamoDB is unreachable.
pub async fn v1_tables(db: &AwsDb, endpoint: &str) -> Result<Vec<String>, StoreError> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let request = db.client().list_tables().set_exclusive_start_table_name(after);
        let answer = request.send().await.map_err(|error| unreachable(endpoint, &error))?;
        names.extend(answer.table_names().iter().filter(|name| name.starts_with(V1_PREFIX)).cloned());
        after = answer.last_evaluated_table_name;
        if after.is_none() {
            return Ok(names);
        }
    }
}

/// `None`: there is no such table. A server error is retried: DynamoDB Local answers with one while an index
/// of the table is being built.
async fn describe(db: &AwsDb, table: Table, endpoint: &str) -> Result<Option<TableDescription>, StoreError> {
    let mut attempt = 0;
    loop {
        match db.client().describe_table().table_name(table.name()).send().await {
            Ok(answer) => return Ok(answer.table),
            Err(error) if error.code() == Some("ResourceNotFoundException") => return Ok(None),
            Err(error) if attempt < TRIES_MAX && error.code().is_some_and(is_retryable) => {
                backoff(attempt).await;
                attempt += 1;
            }
            Err(error) => return Err(unreachable(endpoint, &error)),
        }
    }
}

fn unreachable<E>(endpoint: &str, error: &E) -> StoreError
where
    E: std::error::Error + ProvideErrorMetadata,
{
    let reason = match (error.code(), error.message()) {
        (Some(code), message) => format!("{code} {}", message.unwrap_or_default()),
        _ => {
            let mut deepest: &dyn std::error::Error = error;
            while let Some(source) = deepest.source() {
                deepest = source;
            }
            deepest.to_string()
        }
    };
    StoreError::Unreachable { endpoint: endpoint.to_owned(), reason }
}

/// Fails with the first difference between a table and its schema.
fn compare(table: Table, description: &TableDescription) -> Result<(), StoreError> {
    let different = |difference: String| StoreError::SchemaMismatch { table: table.name(), difference };
    let wanted = keys_text(table.key());
    let found = schema_text(description.key_schema());
    if found != wanted {
        return Err(different(format!("its key is {found}, not {wanted}")));
    }
    for name in [table.key().0, table.key().1] {
        check_type(description, name).map_err(different)?;
    }
    if table != Table::Queue {
        return Ok(());
    }
    for index in [Index::Status, Index::Ready] {
        let named = description
            .global_secondary_indexes()
            .iter()
            .find(|described| described.index_name() == Some(index.name()));
        let Some(described) = named else {
            if index == Index::Ready {
                continue;
            }
            return Err(different(format!("it has no index `{}`", index.name())));
        };
        let (wanted, found) = (keys_text(index.key()), schema_text(described.key_schema()));
        if found != wanted {
            return Err(different(format!(
                "the key of its index `{}` is {found}, not {wanted}",
                index.name()
            )));
        }
        let projection = described.projection().and_then(Projection::projection_type);
        if index == Index::Status && projection != Some(&ProjectionType::All) {
            return Err(different(format!("its index `{}` does not project ALL", index.name())));
        }
        for name in [index.key().0, index.key().1] {
            check_type(description, name).map_err(different)?;
        }
    }
    Ok(())
}

fn check_type(description: &TableDescription, name: &str) -> Result<(), String> {
    let defined = description.attribute_definitions().iter().find(|defined| defined.attribute_name() == name);
    match defined.map(AttributeDefinition::attribute_type) {
        Some(ScalarAttributeType::S) => Ok(()),
        Some(other) => Err(format!("`{name}` has type {}, not S", other.as_str())),
        None => Err(format!("`{name}` is not defined")),
    }
}

fn keys_text((hash, range): (&str, &str)) -> String {
    format!("{hash} (HASH), {range} (RANGE)")
}

fn schema_text(schema: &[KeySchemaElement]) -> String {
    let parts: Vec<String> = schema
        .iter()
        .map(|element| format!("{} ({})", element.attribute_name(), element.key_type().as_str()))
        .collect();
    parts.join(", ")
}

fn has_index(description: &TableDescription, index: Index) -> bool {
    let mut indexes = description.global_secondary_indexes().iter();
    indexes.any(|described| described.index_name() == Some(index.name()))
}

type Built<T> = Result<T, aws_sdk_dynamodb::error::BuildError>;

fn schema((hash, range): (&str, &str)) -> Built<Vec<KeySchemaElement>> {
    let element = |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    Ok(vec![element(hash, KeyType::Hash)?, element(range, KeyType::Range)?])
}

fn definitions(names: &[&str]) -> Built<Vec<AttributeDefinition>> {
    let define = |name: &&str| {
        let definition = AttributeDefinition::builder().attribute_name(*name);
        definition.attribute_type(ScalarAttributeType::S).build()
    };
    names.iter().map(define).collect()
}

fn projection(index: Index) -> Projection {
    match index {
        Index::Status => Projection::builder().projection_type(ProjectionType::All).build(),
        Index::Ready => Projection::builder()
            .projection_type(ProjectionType::Include)
            .set_non_key_attributes(Some(READY_ATTRIBUTES.map(str::to_owned).to_vec()))
            .build(),
    }
}

fn global_index(index: Index) -> Built<GlobalSecondaryIndex> {
    GlobalSecondaryIndex::builder()
        .index_name(index.name())
        .set_key_schema(Some(schema(index.key())?))
        .projection(projection(index))
        .build()
}

async fn create(db: &AwsDb, table: Table, endpoint: &str) -> Result<(), StoreError> {
    let build = || -> Built<_> {
        let mut names = vec![table.key().0, table.key().1];
        let mut indexes = Vec::new();
        if table == Table::Queue {
            for index in [Index::Status, Index::Ready] {
                names.extend([index.key().0, index.key().1]);
                indexes.push(global_index(index)?);
            }
        }
        let request = db.client().create_table().table_name(table.name());
        let request = request.billing_mode(BillingMode::PayPerRequest);
        let request = request.set_key_schema(Some(schema(table.key())?));
        let request = request.set_attribute_definitions(Some(definitions(&names)?));
        Ok(request.set_global_secondary_indexes((!indexes.is_empty()).then_some(indexes)))
    };
    let request = build().map_err(|error| StoreError::Unreachable {
        endpoint: endpoint.to_owned(),
        reason: error.to_string(),
    })?;
    match request.send().await {
        Ok(_) => {}
        // Another process is creating it.
        Err(error) if error.code() == Some("ResourceInUseException") => {}
        Err(error) => return Err(unreachable(endpoint, &error)),
    }
    for poll in 0..POLLS_MAX {
        let described = describe(db, table, endpoint).await?;
        let status = described.as_ref().and_then(TableDescription::table_status);
        if status.is_some_and(|status| status.as_str() == "ACTIVE") {
            return Ok(());
        }
        backoff(poll).await;
    }
    Err(StoreError::Unreachable {
        endpoint: endpoint.to_owned(),
        reason: format!("table `{}` is not active yet", table.name()),
    })
}

/// The throughput of a provisioned table, for an index of it; `None` if it is paid per request.
fn throughput_of(description: &TableDescription) -> Built<Option<ProvisionedThroughput>> {
    let of_table = description.provisioned_throughput();
    let units = of_table.and_then(|units| units.read_capacity_units().zip(units.write_capacity_units()));
    // An on-demand table has none, or zeros.
    let Some((read, write)) = units.filter(|(read, write)| *read > 0 && *write > 0) else { return Ok(None) };
    let throughput = ProvisionedThroughput::builder().read_capacity_units(read).write_capacity_units(write);
    throughput.build().map(Some)
}

/// Adds our index to a table that was created from the seed's YAML, with the throughput of the table.
async fn add_ready_index(
    db: &AwsDb,
    description: &TableDescription,
    endpoint: &str,
) -> Result<(), StoreError> {
    let (table, index) = (Table::Queue, Index::Ready);
    let failed = |reason: String| {
        let reason = format!("adding it failed: {reason}");
        StoreError::MissingIndex { table: table.name(), index: index.name(), reason }
    };
    let build = || -> Built<_> {
        let create = CreateGlobalSecondaryIndexAction::builder()
            .index_name(index.name())
            .set_key_schema(Some(schema(index.key())?))
            .projection(projection(index))
            .set_provisioned_throughput(throughput_of(description)?)
            .build()?;
        let names = [table.key().0, table.key().1, "status", "created_at", index.key().0, index.key().1];
        let update = GlobalSecondaryIndexUpdate::builder().create(create).build();
        let request = db.client().update_table().table_name(table.name());
        let request = request.set_attribute_definitions(Some(definitions(&names)?));
        Ok(request.global_secondary_index_updates(update))
    };
    let request = build().map_err(|error| failed(error.to_string()))?;
    request.send().await.map_err(|error| {
        let (code, message) = (error.code().unwrap_or("no response"), error.message().unwrap_or_default());
        failed(format!("{code} {message}"))
    })?;
    for poll in 0..POLLS_MAX {
        let described = describe(db, table, endpoint).await?;
        let indexes = described.as_ref().map(TableDescription::global_secondary_indexes).unwrap_or_default();
        let ready = indexes.iter().find(|described| described.index_name() == Some(index.name()));
        if ready.and_then(|described| described.index_status()) == Some(&IndexStatus::Active) {
            return Ok(());
        }
        backoff(poll).await;
    }
    Err(failed("it is not active yet".to_owned()))
}
