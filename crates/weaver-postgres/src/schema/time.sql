-- Time. Everything that reads it reads it here, so that tests can move it.
CREATE FUNCTION weaver.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp()';

-- Whole microseconds; PostgreSQL's own arithmetic goes through floating point.
CREATE FUNCTION weaver.later(p_from timestamptz, p_us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_us IS NOT NULL THEN least(timestamptz '9999-12-30 22:00:00+00',
        p_from + (p_us / 1000000) * interval '1 second' + (p_us % 1000000) * interval '1 microsecond') END
$$;

-- Nothing for infinity, which is no instant of Weaver's: the row that holds it must not fail the statement.
CREATE FUNCTION weaver.micros(p_at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN isfinite(p_at) THEN (extract(epoch FROM p_at) * 1000000)::bigint END
$$;

-- Weaver's own state, as a number: the words of the seed do not tell queued from scheduled.
CREATE FUNCTION weaver.task_state(p_state text, p_scheduled boolean) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT (CASE p_state
        WHEN 'PENDING' THEN CASE WHEN p_scheduled THEN 1 ELSE 0 END
        WHEN 'ASSIGNED' THEN 2
        WHEN 'ORPHANED' THEN 3
        WHEN 'RUNNING' THEN 4
        WHEN 'RETRY_SCHEDULED' THEN 5
        WHEN 'SUCCEEDED' THEN 6
        WHEN 'FAILED' THEN 7
        WHEN 'TIMED_OUT' THEN 7
        WHEN 'CANCELED' THEN 8
    END)::smallint
$$;

-- Whether a waiting run may start: due, and not for the first time after its expiry.
CREATE FUNCTION weaver.is_due(p_state text, p_ready_at timestamptz, p_expires_at timestamptz, p_executions integer,
    p_now timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p_state IN ('PENDING', 'RETRY_SCHEDULED') AND p_ready_at <= p_now
        AND (p_expires_at IS NULL OR p_expires_at > p_now OR p_executions > 0)
$$;
