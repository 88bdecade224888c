#!lua
-- Enters the records of one hash tag, in order. The server runs nothing else meanwhile.
--
-- The first line makes this a script that writes. So a server that may not write, such as a primary that was replaced,
-- refuses it, also where all rows are there: its rows may be others than those of the new primary.
--
-- KEYS  the slices, each a hash: key -> rows
-- ARGV  1: how many slices on either side of its own a record sees
--       2: "1" if no id is derived
--       3: the records, each a number of KEYS (the first slice that it sees), which id it has on the previous servers
--          (0: it is not there, 1: its own, 2: a derived one, 3: none, so it gets no row), a key, a content and an owner
--       4 and on: for each of KEYS, when it expires
--
-- A row is the content and the owner of a record. The highest bit of the owner is the mark: the record has a derived
-- id. The reply has a letter for each record: rows.go says what they mean.
local sees, keepIDs, records = tonumber(ARGV[1]), ARGV[2] == '1', ARGV[3]
local byte, char, find, sub, call = string.byte, string.char, string.find, string.sub, redis.call
local contentSize, rowSize, recordSize = 8, 14, 33

-- position returns where a field of a row is among the rows, if it is so many bytes behind the begin of a row.
local function position(rows, field, offset)
  local at = find(rows, field, 1, true)
  while at and (at - 1 - offset) % rowSize ~= 0 do
    at = find(rows, field, at + 1, true)
  end
  return at
end

-- named reports whether one of rows is of a record that has its own id.
local function named(rows)
  for at = contentSize + 1, #rows, rowSize do
    if byte(rows, at) < 128 then return true end
  end
  return false
end

local lasting = {} -- the slices that are known to expire late enough
local function put(slice, key, rows)
  call('HSET', KEYS[slice], key, rows)
  if lasting[slice] then return end
  local expires = tonumber(ARGV[3 + slice])
  if call('PEXPIRETIME', KEYS[slice]) < expires then -- it is -1 for a new slice; it never becomes earlier
    call('PEXPIREAT', KEYS[slice], ARGV[3 + slice])
  end
  lasting[slice] = call('EXISTS', KEYS[slice]) == 1 -- a slice that has expired is gone at once
end

local answers = {}
for at = 1, #records, recordSize do
  local first, has = 256 * byte(records, at) + byte(records, at + 1), byte(records, at + 2)
  local key, content, plain = sub(records, at + 3, at + 18), sub(records, at + 19, at + 26), sub(records, at + 27, at + 32)
  local derived = char(byte(plain) + 128) .. sub(plain, 2)
  local mine, same, taken, own
  for slice = first, first + 2 * sees do
    local rows = call('HGET', KEYS[slice], key)
    if rows then
      if #rows % rowSize ~= 0 then return redis.error_reply('ONCEBOX rows of another layout') end
      if position(rows, plain, contentSize) then mine = 'm' break end
      if position(rows, derived, contentSize) then mine = 'n' break end
      local twin = position(rows, content, 0)
      if twin and byte(rows, twin + contentSize) < 128 then same = 's' end
      same = same or twin and 't'
      taken = taken or has ~= 1 or named(rows) -- with an id from the previous servers, only that id has to be free
    end
    if slice == first + sees then own = rows or '' end
  end
  local answer = mine or same
  if not answer then
    if has == 3 then
      answer = 'o'
    elseif has ~= 2 and not taken then
      answer = 'p'
      put(first + sees, key, own .. content .. plain)
    elseif has == 2 or not keepIDs then
      answer = 'd'
      put(first + sees, key, own .. content .. derived)
    else
      answer = 'o'
    end
  end
  answers[#answers + 1] = answer
end
return table.concat(answers)
