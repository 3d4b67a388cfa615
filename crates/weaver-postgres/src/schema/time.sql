-- The only clock: tests replace this function.
CREATE FUNCTION weaver.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp()';

-- Exact to the microsecond; PostgreSQL's own interval arithmetic goes through floating point. Limited to the year 9999.
CREATE FUNCTION weaver.later(p_from timestamptz, p_us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_us IS NOT NULL THEN least(timestamptz '9999-12-30 22:00:00+00',
        p_from + (p_us / 1000000) * interval '1 second' + (p_us % 1000000) * interval '1 microsecond') END
$$;

-- NULL for infinity, which Weaver never writes: a row with it must not fail the statement.
CREATE FUNCTION weaver.micros(p_at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN isfinite(p_at) THEN (extract(epoch FROM p_at) * 1000000)::bigint END
$$;

-- The number of Weaver's own state: the seed's words do not tell queued from scheduled.
CREATE FUNCTION weaver.task_state(p_state text, p_scheduled boolean) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT (CASE p_state
        WHEN 'PENDING' THEN {waiting_number(p_scheduled)}
        WHEN 'ASSIGNED' THEN {number(assigned)}
        WHEN 'ORPHANED' THEN {number(orphaned)}
        WHEN 'RUNNING' THEN {number(running)}
        WHEN 'RETRY_SCHEDULED' THEN {number(retry_scheduled)}
        WHEN 'SUCCEEDED' THEN {number(succeeded)}
        WHEN 'FAILED' THEN {number(dead)}
        WHEN 'TIMED_OUT' THEN {number(dead)}
        WHEN 'CANCELED' THEN {number(cancelled)}
    END)::smallint
$$;

-- The seed's word for a state. It depends on the cause only where it tells failed from timed out.
CREATE FUNCTION weaver.state_word(p_state smallint, p_cause text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_state
{state_words}
    END
$$;
