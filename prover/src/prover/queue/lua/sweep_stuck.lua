-- Requeues the jobs of dead workers, ends jobs that waited too long, and replaces wake-ups that dead workers hold.

-- arq takes the lowest scores first, so wake-ups that workers hold are near the front.
local function held_wake_ups(queue)
    local count, free, from = 0, 0, 0
    while free < 256 do
        local ids = call('ZRANGE', root .. queue, from, from + 255)
        if #ids == 0 then break end
        for _, id in ipairs(ids) do
            if call('EXISTS', 'arq:in-progress:' .. id) == 1 then
                count, free = count + 1, 0
            else
                free = free + 1
            end
        end
        from = from + 256
    end
    return count
end

if not may_sweep() then return reply({changed = 0, deposed = true}) end
note_sign_of_life()
local changed = 0
for _, queue in ipairs(QUEUES) do
    changed = changed + reap(queue)
    local overdue = call(
        'ZRANGEBYSCORE', queue_key(queue, 'waiting'), '-inf', now - args.max_wait_ms, 'LIMIT', 0, 200
    )
    for _, id in ipairs(overdue) do
        local job = read(id)
        if job and job.state == 'queued' then
            expire(id, job, args.max_wait_ms)
            changed = changed + 1
        else
            call('ZREM', queue_key(queue, 'waiting'), id)
        end
    end
    local free = call('ZCARD', root .. queue) - held_wake_ups(queue)
    for _ = 1, math.min(call('ZCARD', queue_key(queue, 'pending')) - free, 1000) do add_wake_up(queue) end
end
return reply({changed = changed})
