// The meeting rooms, and the two tools that look at them. Both only read.
const WORKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday"];

const ROOMS = [
  { name: "Alder", floor: 1, seats: 4, equipment: ["screen"], taken: ["monday", "friday"] },
  { name: "Birch", floor: 1, seats: 8, equipment: ["screen", "camera"], taken: ["tuesday"] },
  { name: "Cedar", floor: 2, seats: 8, equipment: ["whiteboard"], taken: ["wednesday"] },
  { name: "Elm", floor: 3, seats: 20, equipment: ["screen", "camera", "stage"], taken: ["monday"] },
];

/** Rooms that are free on a day and large enough, the smallest first. */
function findRooms({ day, people }) {
  const wanted = String(day).toLowerCase();
  if (!WORKDAYS.includes(wanted)) throw new Error(`The office is closed on ${day}.`);
  if (!(people > 0)) throw new Error("Say for how many people.");
  return ROOMS.filter((room) => room.seats >= people && !room.taken.includes(wanted))
    .sort((one, other) => one.seats - other.seats)
    .map(({ name, floor, seats }) => ({ name, floor, seats }));
}

/** All about one room. */
function describeRoom({ name }) {
  const found = ROOMS.find((room) => room.name.toLowerCase() === String(name).toLowerCase());
  if (!found) throw new Error(`There is no room called ${name}.`);
  return found;
}

const text = { type: "string" };

/** Name of a tool: what a model reads of it, and the function. */
export const TOOLS = {
  find_rooms: {
    run: findRooms,
    description: "Finds meeting rooms that are free on a day and have enough seats.",
    parameters: { day: { ...text, enum: WORKDAYS }, people: { type: "integer" } },
  },
  describe_room: {
    run: describeRoom,
    description: "Tells floor, seats, equipment, and on which days a room is taken.",
    parameters: { name: text },
  },
};
