-- Removes final jobs after their retention time: results, or failures.
local index = root .. args.index
local old = call('ZRANGEBYSCORE', index, '-inf', now - args.keep_ms, 'LIMIT', 0, 200)
for _, id in ipairs(old) do remove_final(index, id) end
return reply({changed = #old})
