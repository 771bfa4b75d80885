-- Counts jobs, by reads that do not grow with their number.
local queues = {}
for _, queue in ipairs(QUEUES) do
    local pending, turns = queue_key(queue, 'pending'), queue_key(queue, 'turns')
    local oldest = call('ZRANGE', queue_key(queue, 'waiting'), 0, 0, 'WITHSCORES')[2]
    queues[queue] = {
        waiting = call('ZCARD', pending),
        waiting_without_tree = call('ZLEXCOUNT', pending, '[-|', '(-}'),
        trees = call('HLEN', turns) - call('HEXISTS', turns, '-'),
        processing = call('ZCARD', queue_key(queue, 'leases')),
        stuck = call('ZCOUNT', queue_key(queue, 'running'), '-inf', now - args.stuck_ms),
        oldest_waiting_s = oldest and math.max(now - tonumber(oldest), 0) / 1000 or 0,
        types = call('HGETALL', queue_key(queue, 'types')),
        payload_bytes = tonumber(call('GET', queue_key(queue, 'bytes'))) or 0,
        wake_ups = call('ZCARD', root .. queue)
    }
end
local stats = {
    queues = queues,
    failed = call('ZCOUNT', root .. 'failed', '(' .. string.format('%d', now - args.failure_ms), '+inf'),
    results = call('ZCOUNT', root .. 'results', '(' .. string.format('%d', now - args.result_ms), '+inf'),
    timestamp = now / 1000,
    sweeper = call('GET', root .. 'sweeper') or ''
}
return reply({stats = stats})
