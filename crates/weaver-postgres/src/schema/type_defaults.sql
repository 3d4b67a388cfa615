-- Fills the options that the producer omitted with the defaults of the task type. Generated from
-- `weaver_core::task::TypeDefaults`; tasks from Weaver's own clients arrive with explicit values.
CREATE FUNCTION weaver.with_type_defaults(p_type text, p_options jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_type
{cases}
        ELSE {general} END
        || CASE WHEN p_type IN ({by_session}) AND o.chosen ? 'session_id'
            THEN jsonb_build_object('serial_key', o.chosen -> 'session_id') ELSE '{}'::jsonb END
        || o.chosen
    -- A null option counts as omitted, as in the JSON API.
    FROM (SELECT coalesce(jsonb_strip_nulls(p_options), '{}'::jsonb) AS chosen) o
$$;
