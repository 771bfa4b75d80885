-- Removes a job whose record or result no instance can have written. An equal body is a new job; the next script that
-- meets the id in a queue removes it there.
local key = job_key(args.id)
local digest = redis.pcall('HGET', key, 'digest')
if type(digest) == 'string' then forget_digest(args.id, {digest = digest}) end
call('DEL', key, body_key(args.id))
call('ZREM', root .. 'results', args.id)
call('ZREM', root .. 'failed', args.id)
announce(args.id)
return reply({})
