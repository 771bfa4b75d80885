-- Ends waiting requests that are older than the limit, and removes queue entries without a waiting job.
local changed = 0
for _, queue in ipairs(QUEUES) do
    local old = call('ZRANGEBYSCORE', queue_key(queue, 'waiting'), '-inf', now - args.request_ms, 'LIMIT', 0, 200)
    for _, id in ipairs(old) do
        local job = read(id)
        if job and job.state == 'queued' then
            expire(id, job, args.request_ms)
            changed = changed + 1
        else
            call('ZREM', queue_key(queue, 'waiting'), id)
        end
    end
end
return reply({changed = changed})
