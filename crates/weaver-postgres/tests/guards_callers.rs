//! The physical tables are written by the functions of Weaver's schema, and by no function that only has the
//! same name.

mod support;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use support::schema_owner::SchemaOwner;

/// Names of functions that write these tables.
const NAMES: [&str; 4] = ["finish", "leave", "put_in", "update_by_hand"];

/// A schema of the owner's, beside Weaver's.
async fn other_schema(owner: &SchemaOwner, name: &str) {
    let mut superuser = PgConnection::connect(owner.schema.server_url()).await.expect("the server answers");
    let text = format!("CREATE SCHEMA {name} AUTHORIZATION {}", owner.schema.name);
    superuser.execute(AssertSqlSafe(text)).await.expect("a superuser may");
}

async fn drop_schema(owner: &SchemaOwner, name: &str) {
    let text = format!("DROP SCHEMA {name} CASCADE");
    owner.store.pool().execute(AssertSqlSafe(text)).await.expect("a superuser may");
}

#[tokio::test]
async fn a_function_of_the_same_name_in_another_schema_is_refused() {
    let mut owner = SchemaOwner::new().await;
    owner.enqueue().await;
    // The second differs in one character, where a pattern would match any.
    for other in [format!("{}x", owner.schema.name), owner.schema.name.replacen('_', "x", 1)] {
        other_schema(&owner, &other).await;
        for name in NAMES {
            let text = format!(
                "CREATE FUNCTION {other}.{name}(p bigint) RETURNS void LANGUAGE plpgsql AS \
                 'BEGIN UPDATE weaver.ready SET ready_at = now() + interval ''1 day''; END'"
            );
            owner.connection.execute(owner.schema.sql(&text)).await.expect("its owner may");
            owner.refused(&format!("SELECT {other}.{name}(1)")).await;
            // Shown without its schema, as are all that the search path finds.
            let path = format!("SET search_path = {other}, {}", owner.schema.name);
            sqlx::raw_sql(AssertSqlSafe(path)).execute(&mut owner.connection).await.expect("it may be set");
            owner.refused(&format!("SELECT {name}(2::bigint)")).await;
            owner.refused("DO $$ BEGIN DELETE FROM weaver.ready; END $$").await;
            sqlx::raw_sql("RESET search_path").execute(&mut owner.connection).await.expect("as before");
        }
        drop_schema(&owner, &other).await;
    }
    owner.done().await;
}

#[tokio::test]
async fn a_function_that_is_named_like_a_call_of_weavers_is_refused() {
    let mut owner = SchemaOwner::new().await;
    owner.enqueue().await;
    let other = format!("{}y", owner.schema.name);
    other_schema(&owner, &other).await;
    for name in ["weaver.finish", "weaver.finish(", "x\"\nPL/pgSQL function weaver.finish("] {
        let name = name.replace("weaver.", &format!("{}.", owner.schema.name)).replace('"', "\"\"");
        let text = format!(
            "CREATE FUNCTION {other}.\"{name}\"() RETURNS void LANGUAGE plpgsql AS \
             'BEGIN DELETE FROM weaver.ready; END'"
        );
        owner.connection.execute(owner.schema.sql(&text)).await.expect("its owner may");
        for path in ["pg_catalog".to_owned(), other.clone()] {
            let path = format!("SET search_path = {path}");
            sqlx::raw_sql(AssertSqlSafe(path)).execute(&mut owner.connection).await.expect("it may be set");
            owner.refused(&format!("SELECT {other}.\"{name}\"()")).await;
        }
        sqlx::raw_sql("RESET search_path").execute(&mut owner.connection).await.expect("as before");
    }
    drop_schema(&owner, &other).await;
    owner.done().await;
}

#[tokio::test]
async fn a_function_in_weavers_schema_that_is_not_one_of_its_writers_is_refused() {
    let mut owner = SchemaOwner::new().await;
    owner.enqueue().await;
    let text = "CREATE OR REPLACE FUNCTION weaver.mine() RETURNS void LANGUAGE plpgsql AS \
         'BEGIN DELETE FROM weaver.ready; END'";
    let mut superuser = PgConnection::connect(owner.schema.server_url()).await.expect("the server answers");
    // The owner has the name of the schema, which is therefore in its search path.
    for path in ["\"$user\"", "public"] {
        let path = format!("SET search_path = {path}");
        sqlx::raw_sql(AssertSqlSafe(path)).execute(&mut owner.connection).await.expect("it may be set");
        // Anew: a session compiles a function once, with the search path of then.
        superuser.execute(owner.schema.sql(text)).await.expect("a superuser may");
        owner.refused("SELECT weaver.mine()").await;
    }
    owner.done().await;
}

#[tokio::test]
async fn weavers_functions_write_whatever_the_search_path_of_the_session_is() {
    let mut owner = SchemaOwner::new().await;
    for path in ["weaver_schema, public", "weaver_schema", "public"] {
        let path = format!("SET search_path = {}", path.replace("weaver_schema", &owner.schema.name));
        // A new session has not compiled them yet.
        let mut session = PgConnection::connect(owner.schema.server_url()).await.expect("the server answers");
        sqlx::raw_sql(AssertSqlSafe(path)).execute(&mut session).await.expect("it may be set");
        let id: i64 = sqlx::query_scalar(owner.schema.sql("SELECT weaver.enqueue('send')"))
            .fetch_one(&mut session)
            .await
            .expect("it is stored");
        let cancel = format!(
            "UPDATE weaver.job_runs SET state = 'CANCELED', cause = 'user', version = version + 1, \
             finished_at = now(), \
             updated_at = now() WHERE id = {id}"
        );
        let done = session.execute(owner.schema.sql(&cancel)).await.expect("it is allowed");
        assert_eq!(done.rows_affected(), 1);
    }
    assert!(owner.accepts("SELECT weaver.enqueue('send')").await);
    owner.done().await;
}

/// Seed 1.1 on a member of a shared lease: the count is 0 if the version or the state changed meanwhile.
#[tokio::test]
async fn an_update_of_a_running_task_that_another_session_ends_or_renews_meanwhile_changes_no_row() {
    let owner = SchemaOwner::new().await;
    for first in ["retry", "renew", "complete"] {
        let leased = owner.lease_of_many(3).await;
        let (id, token) = (leased[0].lease.key.id, format!("'{:032x}'::uuid", leased[0].lease.token.0));
        let first = match first {
            "retry" => format!(
                "SELECT weaver.retry('default', ARRAY[{id}], ARRAY[2], ARRAY[0], ARRAY[{token}], \
                 ARRAY[0], ARRAY['lost'], \
                 ARRAY['lost'], ARRAY[3600000000], ARRAY[NULL], 1::smallint)"
            ),
            "renew" => format!(
                "SELECT weaver.renew('default', ARRAY[{id}], ARRAY[2], ARRAY[{token}], ARRAY[0], \
                 ARRAY[NULL]::real[], \
                 ARRAY[NULL], ARRAY[NULL]::bigint[], ARRAY[false])"
            ),
            _ => format!("SELECT weaver.complete('default', {id}, 2, 0, {token}, NULL, 1::smallint)"),
        };
        let mut one = PgConnection::connect(owner.schema.server_url()).await.expect("the server answers");
        let mut two = PgConnection::connect(owner.schema.server_url()).await.expect("the server answers");
        let mut transaction = one.begin().await.expect("the server answers");
        transaction.execute(owner.schema.sql(&first)).await.expect("it is written");
        let cancel = owner.schema.sql(&format!(
            "UPDATE weaver.job_runs SET state = 'CANCELED', cause = 'user', version = version + 1, \
             finished_at = now(), \
             updated_at = now(), lease_token = NULL, lease_expires_at = NULL, lease_ttl_us = NULL \
             WHERE id = {id} AND version = 2 AND state = 'RUNNING'"
        ));
        let pid: i32 =
            sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut two).await.expect("a number");
        let mut update = Box::pin(two.execute(cancel));
        tokio::select! {
            done = &mut update => panic!("it does not wait: {done:?} after {first}"),
            () = owner.until_blocked(pid) => {}
        }
        transaction.commit().await.expect("it commits");
        let done = update.as_mut().await.expect("it is no error");
        assert_eq!(done.rows_affected(), 0, "after {first}");
    }
    owner.done().await;
}
