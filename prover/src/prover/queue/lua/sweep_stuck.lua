-- Requeues the jobs of dead workers, ends jobs that waited too long, and replaces wake-ups that dead workers hold.
-- Removes entries of arq's queues that no instance can have written.

local removed = 0

local function remove_entry(queue, id)
    call('ZREM', root .. queue, id)
    removed = removed + 1
end

local function has_name(queue, id)
    local prefix = root .. queue .. ':'
    return string.sub(id, 1, #prefix) == prefix and string.match(id, '^[%l_:]*%d+$', #prefix + 1)
end

-- Returns whether arq fails on the keys of an entry; it does so with the entry in progress.
local function has_foreign_keys(id)
    local job, retry = call('TYPE', 'arq:job:' .. id).ok, call('TYPE', 'arq:retry:' .. id).ok
    if job ~= 'string' and job ~= 'none' then return true end
    return retry ~= 'none' and not (retry == 'string' and tonumber(call('GET', 'arq:retry:' .. id)))
end

-- Returns the number of entries that workers hold. arq takes the lowest scores first, so these are near the front.
local function tidy(queue)
    local key, held, free, from = root .. queue, 0, 0, 0
    if call('TYPE', key).ok ~= 'zset' then
        removed = removed + call('DEL', key)
        return 0
    end
    removed = removed + call('ZREMRANGEBYSCORE', key, '-inf', 0)
    while free < 256 do
        local ids = call('ZRANGE', key, from, from + 255)
        if #ids == 0 then break end
        for _, id in ipairs(ids) do
            from = from + 1
            if not has_name(queue, id) then
                remove_entry(queue, id)
                from = from - 1
            elseif call('EXISTS', 'arq:in-progress:' .. id) == 0 then
                free = free + 1
            elseif has_foreign_keys(id) then
                remove_entry(queue, id)
                call('DEL', 'arq:job:' .. id, 'arq:retry:' .. id, 'arq:in-progress:' .. id)
                from = from - 1
            else
                held, free = held + 1, 0
            end
        end
    end
    return held
end

note_sign_of_life()
if args.sweeper ~= '' then write_unreplicated('SET', root .. 'sweeper', args.sweeper, 'PX', args.hold_ms) end
tidy('timers')
local changed = 0
for _, queue in ipairs(QUEUES) do
    changed = changed + reap(queue) + expire_older(queue, args.max_wait_ms)
    -- Corrects sums after jobs that were removed by others: malformed ones, or those that a release without networks ended.
    if call('ZCARD', queue_key(queue, 'pending')) + call('ZCARD', queue_key(queue, 'leases')) == 0 then
        call('DEL', queue_key(queue, 'types'), queue_key(queue, 'bytes'))
    end
    local held = tidy(queue)
    local free = call('ZCARD', root .. queue) - held
    for _ = 1, math.min(call('ZCARD', queue_key(queue, 'pending')) - free, 1000) do add_wake_up(queue) end
end
return reply({changed = changed, wake_ups = removed})
