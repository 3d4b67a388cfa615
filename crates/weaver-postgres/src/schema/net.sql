-- The net: refuses forbidden moves, also from hand-written SQL. The cases are generated from the table in
-- `weaver_core::lifecycle`. The conditions are evaluated without calling a function; the functions only complain.

CREATE FUNCTION weaver.refuse_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'run %/%: % at version % cannot become % at version %', OLD.namespace, OLD.id, OLD.state,
        OLD.version, NEW.state, NEW.version
        USING ERRCODE = '23514', HINT = 'use weaver, which knows the rules: weaver tasks cancel, weaver tasks run-now';
END
$$;

CREATE FUNCTION weaver.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of weaver runs is refused: a run enters as PENDING, leaves when it has ended, and then stays as it is', TG_OP
        USING ERRCODE = '23514', HINT = 'finished runs are removed by retention and by weaver tasks purge';
END
$$;

CREATE TRIGGER net_insert BEFORE INSERT ON weaver.job_runs FOR EACH ROW
    WHEN (NEW.state <> 'PENDING' OR NEW.version <> 1) EXECUTE FUNCTION weaver.refuse_change();

CREATE TRIGGER net_update AFTER UPDATE ON weaver.job_runs FOR EACH ROW
    WHEN (NOT CASE
        WHEN NEW.version = OLD.version THEN NEW.state = OLD.state
        WHEN NEW.version <> OLD.version + 1 OR NEW.id <> OLD.id OR NEW.namespace <> OLD.namespace
            OR NEW.attempt < OLD.attempt THEN false
        ELSE CASE OLD.state
{cases}
        ELSE false END
    END)
    EXECUTE FUNCTION weaver.refuse_move();

CREATE TRIGGER net_delete AFTER DELETE ON weaver.job_runs FOR EACH ROW
    WHEN (OLD.finished_at IS NULL AND current_setting('weaver.moving', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION weaver.refuse_change();

ALTER TABLE weaver.job_run_history ADD CONSTRAINT job_run_history_state CHECK (state IN ({terminal}));

CREATE TRIGGER net_update BEFORE UPDATE ON weaver.job_run_history FOR EACH ROW
    WHEN ((OLD.namespace, OLD.id, OLD.version, OLD.state, OLD.cause, OLD.outcome, OLD.attempt, OLD.finished_at,
            OLD.result, OLD.last_error, OLD.assigned_worker_id, OLD.lease_started_at)
        IS DISTINCT FROM (NEW.namespace, NEW.id, NEW.version, NEW.state, NEW.cause, NEW.outcome, NEW.attempt,
            NEW.finished_at, NEW.result, NEW.last_error, NEW.assigned_worker_id, NEW.lease_started_at))
    EXECUTE FUNCTION weaver.refuse_change();

CREATE TRIGGER net_delete BEFORE DELETE ON weaver.job_run_history FOR EACH ROW
    WHEN (current_setting('weaver.purging', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION weaver.refuse_change();

CREATE TRIGGER net_truncate BEFORE TRUNCATE ON weaver.job_runs EXECUTE FUNCTION weaver.refuse_change();
CREATE TRIGGER net_truncate BEFORE TRUNCATE ON weaver.job_run_history EXECUTE FUNCTION weaver.refuse_change();
