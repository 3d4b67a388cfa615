-- Guards: refuse writes that Weaver itself never makes, from any client. Every trigger is enabled ALWAYS (`guard_triggers.rs`), so that
-- no session setting disables it.
--
-- The physical tables are written by Weaver's functions only. Hand-written SQL uses the views of the seed (`guard_views.sql`), whose
-- triggers check it against core's tables.

-- The record of deletions: a transaction that deletes finished tasks or audit entries first inserts a row here.
CREATE TABLE weaver.purges (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    who text NOT NULL DEFAULT session_user,
    what text NOT NULL,
    -- Whether it also covers live tasks.
    live boolean NOT NULL DEFAULT false
);
CREATE INDEX purges_xid ON weaver.purges (xid);

CREATE FUNCTION weaver.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = '23514', HINT = TG_ARGV[1];
END
$$;

-- Refuses a statement that none of Weaver's functions runs. The first line of the context is this function; the statement of a function
-- is followed by the function's own line. Once per statement, whatever its number of rows. A name without a schema is never one of
-- Weaver's: these functions have a search path of their own, so that theirs is always written.
CREATE FUNCTION weaver.guard_write() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_context text;
    v_caller text;
    v_schema text := quote_ident(TG_TABLE_SCHEMA) || '.';
BEGIN
    GET DIAGNOSTICS v_context = PG_CONTEXT;
    v_caller := split_part(split_part(v_context, E'"\nPL/pgSQL function ', 2), '(', 1);
    IF starts_with(v_caller, v_schema) AND substr(v_caller, length(v_schema) + 1) = ANY ({writers}) THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% of % is refused: only the functions of Weaver write this table', TG_OP, TG_TABLE_NAME
        USING ERRCODE = '23514', HINT = 'use weaver.enqueue(), or UPDATE the view job_runs';
END
$$;

-- Deletions that are not recorded in `purges`.
CREATE FUNCTION weaver.guard_removals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM old_rows)
            AND NOT EXISTS (SELECT FROM weaver.purges p WHERE p.xid = pg_current_xact_id()) THEN
        RAISE EXCEPTION 'DELETE of % is refused: only retention and recorded purges delete it', TG_TABLE_NAME
            USING ERRCODE = '23514', HINT = 'use weaver tasks purge, or first, in the same transaction: '
                'INSERT INTO weaver.purges (what) VALUES (''why'')';
    END IF;
    RETURN NULL;
END
$$;

-- Entries are numbered by their stream: one beyond the last number would make the next append fail.
CREATE FUNCTION weaver.guard_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM new_rows n LEFT JOIN weaver.streams s ON s.namespace = n.namespace AND s.name = n.name
            WHERE (n.seq BETWEEN 1 AND s.last_seq) IS NOT TRUE) THEN
        RAISE EXCEPTION 'INSERT into audit is refused: its stream did not number these entries'
            USING ERRCODE = '23514', HINT = 'only Weaver writes the audit log';
    END IF;
    RETURN NULL;
END
$$;

-- The physical tables.
{physical_guards}
-- The audit log.
CREATE TRIGGER guard_insert AFTER INSERT ON weaver.audit REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_audit();
CREATE TRIGGER guard_update BEFORE UPDATE ON weaver.audit FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('the audit log is append-only', 'leave it unchanged');
CREATE TRIGGER guard_delete AFTER DELETE ON weaver.audit REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION weaver.guard_removals();
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.audit FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('only retention deletes audit entries', 'wait for their retention');

-- Schedule keys until they expire: deleted or changed earlier, they would admit a duplicate.
CREATE TRIGGER guard_update AFTER UPDATE ON weaver.schedule_keys FOR EACH ROW
    WHEN (OLD.* IS DISTINCT FROM NEW.* AND OLD.until > weaver.clock())
    EXECUTE FUNCTION weaver.refuse_change('the key is reserved for a task until it expires', 'wait until it expires');
CREATE TRIGGER guard_delete AFTER DELETE ON weaver.schedule_keys FOR EACH ROW WHEN (OLD.until > weaver.clock())
    EXECUTE FUNCTION weaver.refuse_change('the key is reserved for a task until it expires', 'wait until it expires');
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.schedule_keys FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('keys are reserved for tasks until they expire', 'wait until they expire');

-- The record of purges is kept for 90 days.
CREATE TRIGGER guard_update BEFORE UPDATE ON weaver.purges FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('the record of purges is immutable', 'leave it unchanged');
CREATE TRIGGER guard_delete BEFORE DELETE ON weaver.purges FOR EACH ROW
    WHEN (OLD.at > clock_timestamp() - interval '90 days')
    EXECUTE FUNCTION weaver.refuse_change('the record of purges is kept for 90 days', 'wait until it is older');
CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.purges FOR EACH STATEMENT
    EXECUTE FUNCTION weaver.refuse_change('the record of purges is kept for 90 days', 'wait until it is older');

